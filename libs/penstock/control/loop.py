"""Control loops: rounds with a period and wake-ups, run only by the holder of the loop's lease.

A round is level-triggered: it reads all state again, whatever woke it, so a lost wake-up only delays a change by one
period. Retryable and terminal errors are handled here and nowhere else.
Renewals of the lease do not depend on the wall clock. APScheduler's timers do, so they are set again whenever the wall
clock was set.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, timedelta
from typing import Any, NamedTuple, Protocol

from apscheduler.jobstores.base import JobLookupError
from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.triggers.date import DateTrigger
from apscheduler.triggers.interval import IntervalTrigger
from prometheus_client import Counter, Gauge, Histogram

from penstock.control.clock import Clock
from penstock.control.errors import Fenced, PenstockError, RetryableError, StatementTimedOut, Unavailable
from penstock.control.logs import logger

log = logger(__name__)
ROUND_FAILURES = Counter("penstock_loop_failures", "rounds of control loops that failed", ["loop", "error"])
ROUND_SECONDS = Histogram(
    "penstock_loop_round_seconds",
    "length of the rounds of control loops, also of those that failed",
    ["loop"],
    buckets=(0.005, 0.025, 0.1, 0.5, 1, 2, 5, 10, 30, 60, 300),
)
LEADS = Gauge("penstock_loop_leader", "whether this process leads a control loop", ["loop"])
_PERIOD = "period"
# After so many rounds in a row, each woken before its rest was over, rests are longer.
_SHORT_RESTS = 10
_LONGER = 3
_LONGEST_REST_SECONDS = 1.0
_CLOCK_SET_SECONDS = 1.0
"""Between two firings of the timer no clock drifts by this much unless somebody sets it."""


class Timers(BackgroundScheduler):  # type: ignore[misc]
    """Ends quietly also while a job fires that fires only once.

    The scheduler's thread removes such a job. When the scheduler was stopped since, it finds no job to remove.
    """

    def remove_job(self, job_id: str, jobstore: str | None = None) -> None:
        """Raises JobLookupError for a job that is not there, unless the scheduler has ended."""
        try:
            super().remove_job(job_id, jobstore)
        except JobLookupError:
            if self.running:
                raise


class Election(Protocol):
    """How a loop gets and keeps its lease."""

    def take(self) -> int | None:
        """The leader epoch, or None while another process leads. Raises Unavailable."""

    def release(self) -> None:
        """Gives the lease up."""


class Leadership:
    """The leader epoch of this process, kept alive by `renew`."""

    def __init__(self, name: str, election: Election, lease_seconds: float, monotonic: Callable[[], float]) -> None:
        self._name = name
        self._election = election
        self._lease_seconds = lease_seconds
        self._monotonic = monotonic
        self._epoch: int | None = None
        self._good_until = float("-inf")

    @property
    def epoch(self) -> int | None:
        """The epoch while the lease is good by this process's own clock, else None."""
        return self._epoch if self._monotonic() < self._good_until else None

    def renew(self) -> int | None:
        """Takes or renews the lease; counted from before the call, so it never outlives the row."""
        asked_at = self._monotonic()
        taken = self._election.take()
        if taken != self._epoch:
            log.info("leadership changed", loop=self._name, epoch=taken, before=self._epoch)
        self._epoch = taken
        self._good_until = asked_at + self._lease_seconds if taken is not None else float("-inf")
        return self.epoch

    def resign(self) -> None:
        held, self._epoch = self._epoch, None
        if held is not None:
            self._election.release()


class RoundEnd(NamedTuple):
    """A round that ended, under a leader epoch, after so many seconds. `error`: why it failed; None: it did not."""

    epoch: int
    seconds: float
    error: str | None


class LeaderLoop:
    """Runs `round_(leader_epoch)` every `period_seconds`, and soon after `wake()`, while this process leads.

    One round at a time, on a thread of its own. A timer, a won election and `wake` only set a flag. A round clears the
    flag before it reads anything, so a whole round follows every wake-up. With `gather_seconds` a round begins that
    much after its wake-up, so that a burst of wake-ups costs few rounds; and after a round there is a rest as long as
    the round, at most a second. When rounds follow each other for long, as they do not in a rescale, it is three times
    as long: so wake-ups without end take a quarter of a processor and not all of it. A round that fails is logged,
    counted by its kind of error, shown by `status`, and tried again next period. `on_end` is told of each.
    """

    def __init__(
        self,
        name: str,
        round_: Callable[[int], None],
        leadership: Leadership,
        clock: Clock,
        *,
        period_seconds: float,
        renew_seconds: float,
        gather_seconds: float = 0.0,
        on_end: Callable[[RoundEnd], None] | None = None,
    ) -> None:
        self._name = name
        self._on_end = on_end
        self._round = round_
        self._leadership = leadership
        self._clock = clock
        self._period_seconds = period_seconds
        self._renew_seconds = renew_seconds
        self._gather_seconds = gather_seconds
        self._timer_ahead_seconds = self._ahead_seconds()
        self._woken = threading.Event()
        self._stopping = threading.Event()
        self._scheduler = Timers(timezone=UTC, job_defaults={"coalesce": True, "misfire_grace_time": None})
        self._threads = [
            threading.Thread(target=run, name=f"{name}-{what}", daemon=True)
            for what, run in (("rounds", self._rounds), ("renewals", self._renewals))
        ]
        LEADS.labels(name).set_function(lambda: leadership.epoch is not None)
        self.rounds = 0
        self.failures = 0
        self.unreachable: str | None = None
        self.round_error: str | None = None

    @property
    def leader_epoch(self) -> int | None:
        """The epoch of this process's leadership, or None."""
        return self._leadership.epoch

    def start(self) -> None:
        """Begins at once: an election, then a round."""
        self._scheduler.add_job(self._tick, IntervalTrigger(seconds=self._period_seconds), id=_PERIOD)
        for thread in self._threads:
            thread.start()
        self._scheduler.start()

    def wake(self) -> None:
        """Asks for a round soon; safe from any thread and at any rate."""
        self._woken.set()

    def wake_in(self, seconds: float) -> None:
        """Asks for a round in `seconds`. Replaces the time of an earlier `wake_in`."""
        at = self._clock.now() + timedelta(seconds=seconds)
        self._scheduler.add_job(self.wake, DateTrigger(at), id="wake", replace_existing=True)

    def stop(self) -> None:
        """Ends after the round in progress and gives the lease up."""
        self._stopping.set()
        self._woken.set()
        if self._scheduler.running:
            self._scheduler.shutdown(wait=True)
        for thread in self._threads:
            if thread.is_alive():
                thread.join()
        try:
            self._leadership.resign()
        except RetryableError as error:
            log.warning("lease not released", loop=self._name, error=error.detail)

    def status(self) -> dict[str, Any]:
        """Leader or standby, for `/readyz`, and the error of the last round if it failed.

        Raises Unavailable when the last election could not be held.
        """
        if self.unreachable is not None:
            raise Unavailable(f"the lease of {self._name} cannot be renewed: {self.unreachable}")
        epoch = self.leader_epoch
        failed = {} if self.round_error is None else {"round_error": self.round_error}
        return {"role": "standby" if epoch is None else "leader", "epoch": epoch} | failed

    def _renew(self) -> None:
        was_leader = self._leadership.epoch is not None
        try:
            is_leader = self._leadership.renew() is not None
        except RetryableError as error:
            self.unreachable = error.detail
            log.warning("lease not renewed", loop=self._name, error=error.detail)
            return
        except Exception as error:  # a bug in a renewal must not end the renewals
            self.unreachable = repr(error)
            log.exception("renewal broke", loop=self._name)
            return
        self.unreachable = None
        if is_leader and not was_leader:
            self.wake()

    def _renewals(self) -> None:
        self._renew()
        while not self._stopping.wait(self._renew_seconds):
            self._renew()
            if abs(self._ahead_seconds() - self._timer_ahead_seconds) > _CLOCK_SET_SECONDS:
                self._set_timers_anew()

    def _tick(self) -> None:
        """The timer has fired. Its next firing depends on the wall clock of this moment."""
        self._timer_ahead_seconds = self._ahead_seconds()
        self.wake()

    def _ahead_seconds(self) -> float:
        return self._clock.now().timestamp() - self._clock.monotonic()

    def _set_timers_anew(self) -> None:
        """The wall clock was set, so a timer may now be hours away. The next round sets its own timers again."""
        log.warning("wall clock was set", loop=self._name)
        self._timer_ahead_seconds = self._ahead_seconds()
        self._scheduler.reschedule_job(_PERIOD, trigger=IntervalTrigger(seconds=self._period_seconds))
        self.wake()

    def _rounds(self) -> None:
        rests_until, in_a_row = float("-inf"), 0
        while True:
            self._woken.wait()
            rest_seconds = rests_until - self._clock.monotonic() if self._gather_seconds else 0.0
            in_a_row = in_a_row + 1 if rest_seconds > 0 else 0
            if self._stopping.wait(max(self._gather_seconds, rest_seconds)):
                return
            self._woken.clear()
            epoch = self._leadership.epoch
            if epoch is not None:
                begun_at = self._clock.monotonic()
                is_own = self._one_round(epoch)
                ended_at = self._clock.monotonic()
                seconds = ended_at - begun_at
                longer = _LONGER if in_a_row >= _SHORT_RESTS else 1
                rests_until = ended_at + min(longer * seconds, _LONGEST_REST_SECONDS)
                ROUND_SECONDS.labels(self._name).observe(seconds)
                if is_own:
                    self._tell_end(epoch, seconds)

    def _tell_end(self, epoch: int, seconds: float) -> None:
        if self._on_end is None:
            return
        try:
            self._on_end(RoundEnd(epoch, seconds, self.round_error))
        except Exception:  # what others are told of a round must not end the loop
            log.exception("end of a round not told", loop=self._name)

    def _one_round(self, epoch: int) -> bool:
        """False when the round was fenced: another leader tells of its own."""
        try:
            self._round(epoch)
        except Fenced as error:
            log.warning("round fenced", loop=self._name, error=error.detail, epoch=epoch)
            return False
        except StatementTimedOut as error:
            self._count(error)
            log.error("round timed out in the store", loop=self._name, error=error.detail, **error.extra)
        except RetryableError as error:
            self._count(error)
            log.warning("round failed, to be tried again", loop=self._name, error=error.detail)
        except PenstockError as error:
            self._count(error)
            log.exception("round failed", loop=self._name)
        except Exception as error:  # a bug in a round must not end the loop: the next round reads the store again
            self._count(error)
            log.exception("round broke", loop=self._name)
        else:
            self.rounds += 1
            self.round_error = None
        return True

    def _count(self, error: Exception) -> None:
        self.failures += 1
        self.round_error = _shown(error)
        ROUND_FAILURES.labels(self._name, type(error).__name__).inc()


def _shown(error: Exception) -> str:
    """The error's type and the first line of its text. Anybody may read `/readyz`: the rest is only in the log."""
    first, *_ = str(error).splitlines() or [""]
    return f"{type(error).__name__}: {first}"
