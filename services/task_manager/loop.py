"""The four loops of a Task Manager, each one step at a time, and the threads that run them.

A step reads what it needs, acts, and says how long to wait; nothing is carried from one to the next but what the
container knows. An event only ends the wait. No step waits for another loop, so none can hold up the lease.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

from penstock.control.clock import Clock
from penstock.control.errors import LeaseLost, RetryableError
from penstock.control.logs import logger
from penstock.wire.cluster import Snapshot
from services.task_manager.catalog import Catalog, updated
from services.task_manager.container import Container
from services.task_manager.disk import Lives
from services.task_manager.ports import LeaseStore, ReportSink, ShardAuthority, SpecSource, StoredShards
from services.task_manager.snapshot_file import SnapshotFile

log = logger(__name__)
_AFTER_A_BUG_SECONDS = 1.0
_QUICK_ANSWER_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Periods:
    """How often, in seconds. `lease` is that of a lease taken from the store. `delta_gap`: after news of specs, so that
    a burst of commits is fetched once a gap, however many they are; the first of a burst is fetched at once."""

    tick: float = 1.0
    heartbeat: float = 10.0
    retry: float = 2.0
    lease: float = 40.0
    full_fetch: float = 60.0
    delta_wait: float = 20.0
    delta_gap: float = 0.2
    report: float = 2.0
    report_gap: float = 0.2


class Outage:
    """Logs once when something is no longer reached, and once when it is again."""

    def __init__(self, what: str, clock: Clock) -> None:
        self._what = what
        self._clock = clock
        self._since: float | None = None

    def failed(self, error: RetryableError) -> None:
        """It was asked in vain."""
        if self._since is None:
            self._since = self._clock.monotonic()
            log.warning("not reached", what=self._what, error=error.detail)

    def ended(self) -> None:
        """It answered."""
        if self._since is not None:
            log.info("reached again", what=self._what, seconds=round(self._clock.monotonic() - self._since, 3))
            self._since = None


class Heartbeats:
    """Keeps the lease: by the Shard Manager, or by the store while that does not answer."""

    def __init__(
        self,
        container: Container,
        authority: ShardAuthority,
        store: LeaseStore,
        lives: Lives,
        clock: Clock,
        periods: Periods,
    ) -> None:
        self._container = container
        self._authority = authority
        self._store = store
        self._lives = lives
        self._clock = clock
        self._periods = periods
        self._authority_outage = Outage("shard manager", clock)
        self._store_outage = Outage("job store", clock)

    def step(self) -> float:
        """One heartbeat; seconds until the next."""
        request = self._container.heartbeat_request()
        if request is None:
            return self._periods.retry
        self._lives.asks(request.incarnation)
        sent_at = self._clock.monotonic()
        try:
            answer = self._authority.heartbeat(request)
        except RetryableError as error:
            self._authority_outage.failed(error)
            return self._by_the_store(request.incarnation)
        self._authority_outage.ended()
        self._container.heartbeat_answered(request, answer, sent_at)
        if answer.known:
            self._lives.granted(request.incarnation)
        return self._periods.heartbeat

    def _by_the_store(self, incarnation: str) -> float:
        sent_at = self._clock.monotonic()
        try:
            stored = self._stored(incarnation)
        except LeaseLost as error:
            log.warning("no lease by the store", error=error.detail)
            if self._container.was_granted(incarnation):
                self._container.lease_refused(incarnation)
            return self._periods.retry
        except RetryableError as error:
            self._store_outage.failed(error)
            return self._periods.retry
        self._store_outage.ended()
        self._container.lease_stored(incarnation, stored, sent_at, self._periods.lease)
        self._lives.granted(incarnation)
        return self._periods.heartbeat

    def _stored(self, incarnation: str) -> StoredShards:
        """A life that has a lease renews it; a new one takes the place of a former one. Raises LeaseLost."""
        if self._container.was_granted(incarnation):
            return self._store.renew(incarnation)
        for former in self._lives.formers():
            try:
                return self._store.adopt(former, incarnation)
            except LeaseLost as error:
                log.info("former life is over", former=former, error=error.detail)
        raise LeaseLost("the store knows no life of this container that could be taken over")


class Specs:
    """Keeps the catalog: a full snapshot at times, deltas in between, the disk's at the start."""

    def __init__(
        self, container: Container, source: SpecSource, file: SnapshotFile, clock: Clock, periods: Periods
    ) -> None:
        self._container = container
        self._source = source
        self._file = file
        self._clock = clock
        self._periods = periods
        self._outage = Outage("task service, for specs", clock)
        self._catalog: Catalog | None = None
        self._full_due_at = float("-inf")

    def load(self) -> None:
        """The catalog of the last life, until the Task Service gives a newer one."""
        snapshot = self._file.load()
        if snapshot is not None:
            self._catalog = updated(None, snapshot)
            self._container.take_specs(self._catalog)

    def step(self) -> float:
        """One fetch, which may wait for news; seconds until the next."""
        begun_at = self._clock.monotonic()
        try:
            changed = self._fetch(begun_at)
        except RetryableError as error:
            self._outage.failed(error)
            return self._periods.retry
        self._outage.ended()
        # A service that answers at once that nothing is new would otherwise be asked without a pause.
        was_quick = self._clock.monotonic() - begun_at < _QUICK_ANSWER_SECONDS
        if changed:
            return self._periods.delta_gap
        return self._periods.tick if was_quick else 0.0

    def _fetch(self, now: float) -> bool:
        known = self._catalog
        if known is None or now >= self._full_due_at:
            snapshot = self._source.full()
            self._full_due_at = now + self._periods.full_fetch
            return snapshot is not None and self._take(known, snapshot)
        snapshot = self._source.delta(known.commit_number, min(self._periods.delta_wait, self._full_due_at - now))
        if snapshot.full and snapshot.commit_number < known.commit_number:
            # Only an older store can answer so: a Task Service that merely knows less catches up first.
            log.error("job store went back", commit_number=snapshot.commit_number, known=known.commit_number)
            return self._take(None, snapshot)
        return self._take(known, snapshot)

    def _take(self, known: Catalog | None, snapshot: Snapshot) -> bool:
        catalog = updated(known, snapshot, self._container.sharding())
        if catalog == self._catalog:
            return False
        self._catalog = catalog
        # First of all: a later life must know whatever this one may report to have applied.
        if snapshot.full or not self._file.append(snapshot):
            self._file.save(catalog.snapshot())
        self._container.take_specs(catalog)
        return True


class Reports:
    """Tells the Task Service what runs here; each report is the newest state, so none needs to be kept."""

    def __init__(self, container: Container, sink: ReportSink, clock: Clock, periods: Periods) -> None:
        self._container = container
        self._sink = sink
        self._periods = periods
        self._outage = Outage("task service, for reports", clock)

    def step(self) -> float:
        """One report; seconds until the next."""
        try:
            batch = self._container.report()
            self._sink.report(batch)
            self._container.reported(batch)
            self._outage.ended()
        except RetryableError as error:
            self._outage.failed(error)
        return self._periods.report


class Worker:
    """A thread that runs `step` again and again, after the seconds that it returns or when `due` is set."""

    def __init__(
        self, name: str, step: Callable[[], float], *, due: threading.Event | None = None, gap_seconds: float = 0.0
    ) -> None:
        self._step = step
        self._due = due or threading.Event()
        self._gap_seconds = gap_seconds
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Begins with a step."""
        self._thread.start()

    def stop(self, timeout_seconds: float | None = None) -> None:
        """Ends after the step in progress, or leaves it behind when that takes too long."""
        self._stopping.set()
        self._due.set()
        if self._thread.is_alive():
            self._thread.join(timeout_seconds)

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._due.clear()
            pause_seconds = self._step_safely()
            self._stopping.wait(self._gap_seconds)
            self._due.wait(max(0.0, pause_seconds - self._gap_seconds))

    def _step_safely(self) -> float:
        try:
            return self._step()
        except Exception:
            log.exception("step broke", loop=self._thread.name)
            return _AFTER_A_BUG_SECONDS


class TaskManager:
    """The loops together. `stop` lets tasks end within a time and then kills what is left."""

    def __init__(
        self,
        container: Container,
        heartbeats: Heartbeats,
        specs: Specs,
        reports: Reports,
        periods: Periods,
    ) -> None:
        self.container = container
        self._specs = specs
        self._reports = reports
        self._tick_seconds = periods.tick
        self._workers = (
            Worker("reconcile", self._tick, due=container.wake),
            Worker("heartbeats", heartbeats.step, due=container.heartbeat_due, gap_seconds=periods.report_gap),
            Worker("specs", specs.step),
            Worker("reports", reports.step, due=container.report_due, gap_seconds=periods.report_gap),
        )

    def start(self) -> None:
        """Begins; warm hosts start before anything is asked for."""
        self._specs.load()
        for worker in self._workers:
            worker.start()

    def stop(self, timeout_seconds: float) -> None:
        """Stops every task, tells so, and ends every host and thread."""
        self.container.begin_shutdown()
        if not self.container.await_idle(timeout_seconds):
            log.warning("tasks did not stop in time and are killed")
        reconcile, *others = self._workers
        reconcile.stop()
        self.container.kill_hosts()
        self.container.tick()
        for worker in others:
            worker.stop(timeout_seconds=0.5)
        self._reports.step()

    def _tick(self) -> float:
        self.container.tick()
        return self._tick_seconds
