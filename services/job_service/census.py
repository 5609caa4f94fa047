"""Counts all jobs by health and state, a page at a time, on a thread of its own, and keeps what they are sorted by.

Health is decided in Python, half a millisecond a job, so a count of 10,000 jobs takes seconds. A count begins when
somebody asks, and the next one not before ten times the duration of the last: at most a tenth of a core is spent.
A count that failed is told to all who ask, until the next one succeeds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, wait
from datetime import datetime
from threading import Lock, Thread
from typing import NamedTuple

from sqlalchemy import Engine

from penstock.control.clock import Clock
from penstock.control.logs import logger
from penstock.model.health import GRAVEST, Health
from penstock.model.jobs import JobState
from penstock.store.engine import snapshot
from penstock.wire.fleet import FleetView
from penstock.wire.jobs import JobSummary
from services.job_service.order import Row
from services.job_service.store import jobs, lags

log = logger(__name__)
MOST_WORST = 50
PAGE = 500
REST_TIMES = 9.0
"""So many times the duration of a count nothing is counted after it."""
LEAST_REST_SECONDS = 1.0
MOST_REST_AFTER_FAILURE_SECONDS = 60.0
WAIT_SECONDS = 0.3
_FINE = (Health.HEALTHY, Health.STOPPED)


def rest_seconds(took_seconds: float, failures: int) -> float:
    """How long nothing is counted after a count; `failures`: how many failed in a row. Pure."""
    if failures == 0:
        return max(LEAST_REST_SECONDS, REST_TIMES * took_seconds)
    return min(MOST_REST_AFTER_FAILURE_SECONDS, LEAST_REST_SECONDS * 2.0 ** min(failures - 1, 30))


class Tally:
    """What was counted until now. Pure."""

    def __init__(self, at: datetime) -> None:
        self.at = at
        self._health: Counter[Health] = Counter()
        self._states: Counter[JobState] = Counter()
        self._worst: dict[Health, list[JobSummary]] = {health: [] for health in GRAVEST if health not in _FINE}
        self.rows: list[Row] = []

    def add(self, page: Iterable[JobSummary]) -> None:
        """Counts more jobs."""
        for job in page:
            self.rows.append(Row.of(job))
            self._health[job.health] += 1
            self._states[job.state] += 1
            of_health = self._worst.get(job.health)
            if of_health is not None and len(of_health) < MOST_WORST:
                of_health.append(job)

    def worst(self) -> list[JobSummary]:
        """The jobs of the gravest health, by name within each."""
        return [job for of_health in self._worst.values() for job in of_health][:MOST_WORST]

    def view(self, *, complete: bool, worst: Iterable[JobSummary] = ()) -> FleetView:
        """The figures as an answer."""
        return FleetView(
            at=self.at,
            complete=complete,
            jobs=self._health.total(),
            health=dict(self._health),
            states=dict(self._states),
            worst=list(worst),
        )


class Listed(NamedTuple):
    """All jobs as a count found them. `complete` false: those of the first count until now."""

    at: datetime
    complete: bool
    rows: Sequence[Row]


class Census:
    """The newest count of all jobs; safe from any thread."""

    def __init__(self, engine: Engine, clock: Clock) -> None:
        self._engine = engine
        self._clock = clock
        self._lock = Lock()
        self._counting: Future[None] | None = None
        self._tally = Tally(clock.now())
        self._last: FleetView | None = None
        self._listed: Listed | None = None
        self._next_at = float("-inf")
        self._failure: Exception | None = None
        self._failures = 0

    def count(self) -> FleetView:
        """The figures. Waits a moment for a count that is under way; then those of the last one, or those so far.

        Raises what the last count failed with, such as Unavailable when the store cannot be read.
        """
        with self._lock:
            if self._counting is None and self._clock.monotonic() >= self._next_at:
                self._counting = Future()
                # A count may take minutes: the end of the process does not wait for it.
                Thread(target=self._run, args=(self._counting,), name="census", daemon=True).start()
            counting = self._counting
        if counting is not None:
            wait([counting], WAIT_SECONDS)
        with self._lock:
            failure = self._failure
        if failure is not None:
            raise failure.with_traceback(None)  # it is raised often, and would grow each time
        return self._last or self._tally.view(complete=False)

    def listed(self) -> Listed:
        """All jobs, of the same count as `count`, and raises the same."""
        self.count()
        tally = self._tally
        return self._listed or Listed(tally.at, False, tuple(tally.rows))

    def _run(self, counting: Future[None]) -> None:
        began = self._clock.monotonic()
        failure: Exception | None = None
        try:
            self._count()
        except Exception as error:  # noqa: BLE001 -- it is the caller's: raised in the threads of who asks
            log.warning("the jobs were not counted", error=repr(error))
            failure = error
        now = self._clock.monotonic()
        with self._lock:
            self._failure = failure
            self._failures = 0 if failure is None else self._failures + 1
            self._next_at = now + rest_seconds(now - began, self._failures)
            self._counting = None
        counting.set_result(None)

    def _count(self) -> None:
        self._tally = tally = Tally(self._clock.now())
        after: str | None = ""
        while after is not None:
            with snapshot(self._engine) as connection:
                page = jobs.page(connection, limit=PAGE, after=after)
                tally.add(lags.with_lags(connection, page.jobs))
            after = page.last
        self._listed = Listed(tally.at, True, tally.rows)
        self._last = tally.view(complete=True, worst=tally.worst())
