"""The one reader of the running table in this process: a thread that keeps the templates in memory.

It reads what is new at every NOTIFY, and everything when the cache has expired, even if nothing was notified. While the
store cannot be read, the templates stay as they were read last. Alerts come after the templates are served
(`TemplateAlerts`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from penstock.control.clock import Clock
from penstock.control.errors import PenstockError, TerminalError
from penstock.control.logs import logger
from services.task_service import metrics
from services.task_service.alerting import AGAIN_SECONDS, TemplateAlerts
from services.task_service.store.port import TemplateStore
from services.task_service.store.rows import Changes
from services.task_service.templates import Templates, everything, updated
from services.task_service.waiters import Waiters

log = logger(__name__)
RETRY_SECONDS = 1.0


class TemplateCache:
    """`templates` is None before the first read. `begun`: the number of the newest read that has begun. `reads`: the
    number of the newest read that has succeeded; numbers begin with 1."""

    def __init__(
        self,
        store: TemplateStore,
        clock: Clock,
        waiters: Waiters,
        *,
        expiry_seconds: float,
        held_back_alert_seconds: float,
    ) -> None:
        self._store = store
        self._clock = clock
        self._waiters = waiters
        self._expiry_seconds = expiry_seconds
        self._alerts = TemplateAlerts(
            store, clock, held_back_seconds=held_back_alert_seconds, period_seconds=expiry_seconds
        )
        self.templates: Templates | None = None
        self.begun = 0
        self.reads = 0
        self._read_at = float("-inf")
        self._read_all_at = float("-inf")
        self._woken = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="template-cache", daemon=True)

    def start(self) -> None:
        """Reads at once, then at every wake-up and expiry."""
        metrics.snapshot_age_seconds.set_function(self.age_seconds)
        self._woken.set()
        self._thread.start()

    def stop(self) -> None:
        """Ends after the read in progress."""
        self._stopping.set()
        self._woken.set()
        self._thread.join(timeout=10)

    def wake(self) -> None:
        """Asks for a read soon. May be called from any thread and at any rate."""
        self._woken.set()

    def age_seconds(self) -> float:
        """Seconds since the store was last read; infinite before."""
        return self._clock.monotonic() - self._read_at

    def _run(self) -> None:
        wait_seconds = self._expiry_seconds
        while not self._stopping.is_set():
            self._woken.wait(timeout=wait_seconds)
            self._woken.clear()
            if self._stopping.is_set():
                return
            if not self._succeeds(self._read):
                self._woken.set()
                self._stopping.wait(RETRY_SECONDS)
                continue
            self._waiters.release()
            is_all_told = self.templates is None or self._alerts.update(self.templates)
            wait_seconds = self._expiry_seconds if is_all_told else min(AGAIN_SECONDS, self._expiry_seconds)

    def _succeeds(self, step: Callable[[], None]) -> bool:
        """Runs a step. False when it failed, which is logged; the next step starts from the store again."""
        try:
            step()
        except PenstockError as error:
            log.warning(
                "store not read, serving the last templates", error=error.detail, age_seconds=self.age_seconds()
            )
            return False
        except Exception:
            log.exception("reading the store failed", age_seconds=self.age_seconds())
            return False
        return True

    def _read(self) -> None:
        self.begun += 1
        number, asked_at, known = self.begun, self._clock.monotonic(), self.templates
        is_expired = asked_at - self._read_all_at >= self._expiry_seconds
        if known is None or is_expired:
            fresh = self._read_all(known)
            self._read_all_at = asked_at
        else:
            fresh = self._read_new(known)
        self._log_changes(known, fresh)
        self.templates, self._read_at = fresh, asked_at
        self.reads = number
        self._publish(fresh)

    def _read_all(self, known: Templates | None) -> Templates:
        changes = self._store.read()
        if known is not None and _is_other_store(known, changes):
            log.error("job store has another incarnation", incarnation=changes.incarnation, known=known.store)
            known = None
        _check_newer(known, changes)
        return everything(known, changes)

    def _read_new(self, known: Templates) -> Templates:
        changes = self._store.read(known.commit_number)
        if _is_other_store(known, changes):
            return self._read_all(known)
        _check_newer(known, changes)
        return updated(known, changes)

    def _log_changes(self, known: Templates | None, fresh: Templates) -> None:
        before = known.broken if known is not None else {}
        for job, broken in fresh.broken.items():
            if before.get(job) != broken:
                number = broken.commit_number
                log.error("running row does not validate", job=job, commit_number=number, error=broken.reason)
        if known is None or known.store != fresh.store:
            log.info("templates read", jobs=len(fresh.by_job), commit_number=fresh.commit_number)
            return
        for template in fresh.above(known.commit_number):
            log.info(
                "template served",
                job=template.job,
                revision=template.revision,
                generation=template.generation,
                commit_number=template.commit_number,
            )
        for job in fresh.removed_above(known.commit_number):
            log.info("template removed", job=job, commit_number=fresh.removed[job])

    def _publish(self, fresh: Templates) -> None:
        metrics.templates.set(len(fresh.by_job))
        metrics.broken_templates.set(len(fresh.broken))
        metrics.commit_number.set(fresh.commit_number)


def _is_other_store(known: Templates, changes: Changes) -> bool:
    return bool(known.store) and known.store != changes.incarnation


def _check_newer(known: Templates | None, changes: Changes) -> None:
    """No process takes an older commit than it has acted on. Raises TerminalError."""
    if known is not None and changes.commit_number < known.commit_number:
        raise TerminalError(
            f"the job store went back from commit {known.commit_number} to {changes.commit_number}: after a restore or"
            " a fail-over that lost commits, run `penstock restored`"
        )
