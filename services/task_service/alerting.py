"""What people are told of templates and tasks: alerts, after the templates are served. No template waits for one.

What the store did not take is told again: a broken row counts as told once its alert is stored.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from penstock.control.clock import Clock
from penstock.control.errors import PenstockError
from penstock.control.logs import logger
from penstock.control.period import Period
from services.task_service.store.port import TemplateStore
from services.task_service.templates import Broken, Templates

log = logger(__name__)
AGAIN_SECONDS = 10.0
"""The store is told nothing for so long after it did not take an alert, since each try may wait for a lock."""


class TemplateAlerts:
    """Used by one thread. `held_back_seconds`: how long a task waits before that is told. `period_seconds`: how often
    waiting tasks are looked for."""

    def __init__(self, store: TemplateStore, clock: Clock, *, held_back_seconds: float, period_seconds: float) -> None:
        self._store = store
        self._clock = clock
        self._held_back_seconds = held_back_seconds
        self._looking = Period(period_seconds)
        self._told: Mapping[str, Broken] = {}
        self._again_at = float("-inf")

    def update(self, templates: Templates) -> bool:
        """Stores what is new. False when something is left, which another call stores."""
        now = self._clock.monotonic()
        if now < self._again_at:
            return False
        is_broken_told = _succeeds(lambda: self._tell_broken(templates.broken))
        is_all_told = _succeeds(lambda: self._tell_waiting(now)) and is_broken_told
        self._again_at = float("-inf") if is_all_told else now + AGAIN_SECONDS
        return is_all_told

    def _tell_broken(self, broken: Mapping[str, Broken]) -> None:
        """Raises an alert for each newly broken row, and clears the alerts of rows that are valid again."""
        opened = {job: row.reason for job, row in broken.items() if self._told.get(job) != row}
        closed = self._told.keys() - broken.keys()
        if opened or closed:
            self._store.alert(opened, closed)
        self._told = broken

    def _tell_waiting(self, now: float) -> None:
        if self._looking.is_due(now):
            self._store.alert_waiting_tasks(self._held_back_seconds)
            self._looking.done()


def _succeeds(step: Callable[[], None]) -> bool:
    try:
        step()
    except PenstockError as error:
        log.warning("alerts not stored, to be tried again", error=error.detail)
        return False
    except Exception:
        log.exception("storing alerts failed")
        return False
    return True
