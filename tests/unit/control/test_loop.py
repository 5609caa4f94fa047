"""Rounds, wake-ups, leadership and errors of the control loop, with an election that tests decide."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

import pytest
from apscheduler.executors.base import BaseExecutor
from apscheduler.jobstores.base import JobLookupError
from apscheduler.schedulers.base import STATE_RUNNING, STATE_STOPPED, BaseScheduler
from apscheduler.triggers.date import DateTrigger
from prometheus_client import REGISTRY

from penstock.control.clock import Clock, SystemClock
from penstock.control.errors import Fenced, StatementTimedOut, Unavailable
from penstock.control.loop import ROUND_FAILURES, ROUND_SECONDS, LeaderLoop, Leadership, Timers
from penstock.control.process import wait_until

LONG_SECONDS = 3600.0


class FakeElection:
    """Gives what the test says: an epoch, None, or an error."""

    def __init__(self, epoch: int | None = 1) -> None:
        self.answer: int | Exception | None = epoch
        self.released = 0
        self.asked = 0

    def take(self) -> int | None:
        self.asked += 1
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def release(self) -> None:
        self.released += 1


class Time:
    """A monotonic clock that tests move."""

    def __init__(self) -> None:
        self.seconds = 100.0

    def __call__(self) -> float:
        return self.seconds


class SettableClock(SystemClock):
    """The machine's, whose wall time the test sets."""

    def __init__(self) -> None:
        self.set_by = timedelta()

    def now(self) -> datetime:
        return super().now() + self.set_by


@pytest.fixture
def loops() -> Iterator[list[LeaderLoop]]:
    started: list[LeaderLoop] = []
    yield started
    for loop in started:
        loop.stop()


def make_loop(
    loops: list[LeaderLoop],
    round_: Callable[[int], None],
    election: FakeElection,
    *,
    monotonic: Callable[[], float] | None = None,
    clock: Clock | None = None,
    period_seconds: float = LONG_SECONDS,
    renew_seconds: float = 0.05,
) -> LeaderLoop:
    leadership = Leadership("test", election, 10.0, monotonic or Time())
    clock = clock or SystemClock()
    loop = LeaderLoop("test", round_, leadership, clock, period_seconds=period_seconds, renew_seconds=renew_seconds)
    loops.append(loop)
    return loop


def test_the_first_round_follows_the_election_at_once(loops: list[LeaderLoop]) -> None:
    epochs: list[int] = []
    make_loop(loops, epochs.append, FakeElection(epoch=7)).start()
    wait_until(lambda: epochs, 5, "a round")
    assert epochs == [7]


def test_rounds_come_every_period(loops: list[LeaderLoop]) -> None:
    loop = make_loop(loops, lambda _: None, FakeElection(), period_seconds=0.02)
    loop.start()
    wait_until(lambda: loop.rounds >= 5, 5, "five rounds")
    assert loop.failures == 0


def test_a_wake_up_during_a_round_causes_one_more(loops: list[LeaderLoop]) -> None:
    """1. A round reads. 2. Three wake-ups come while it works. 3. Exactly one more round follows it."""
    reading, go_on, rounds = threading.Event(), threading.Event(), []

    def round_(epoch: int) -> None:
        rounds.append(epoch)
        reading.set()
        assert go_on.wait(5)

    loop = make_loop(loops, round_, FakeElection())
    loop.start()
    assert reading.wait(5)
    for _ in range(3):
        loop.wake()
    go_on.set()
    wait_until(lambda: loop.rounds == 2, 5, "the second round")
    assert len(rounds) == 2


def test_no_wake_up_is_lost_at_any_moment(loops: list[LeaderLoop]) -> None:
    """What is written before a wake-up is seen by a round, however the two interleave."""
    written, seen = [0], [0]

    def round_(_: int) -> None:
        seen[0] = written[0]

    loop = make_loop(loops, round_, FakeElection())
    loop.start()
    for value in range(1, 2000):
        written[0] = value
        loop.wake()
    wait_until(lambda: seen[0] == 1999, 5, "the last write to be seen")
    assert loop.failures == 0


def test_wake_in_asks_for_a_round_later_and_only_the_last_counts(loops: list[LeaderLoop]) -> None:
    loop = make_loop(loops, lambda _: None, FakeElection())
    loop.start()
    wait_until(lambda: loop.rounds == 1, 5, "the first round")
    loop.wake_in(LONG_SECONDS)
    loop.wake_in(0.05)
    wait_until(lambda: loop.rounds == 2, 5, "the round that was asked for")
    assert loop.rounds == 2


@pytest.mark.parametrize("hours", [1, -1])
def test_a_wall_clock_that_is_set_costs_no_round(loops: list[LeaderLoop], hours: int) -> None:
    """1. Nothing is due for an hour. 2. Somebody sets the clock: a round follows. 3. It goes on as set: no other."""
    clock, election = SettableClock(), FakeElection()
    loop = make_loop(loops, lambda _: None, election, clock=clock)
    loop.start()
    wait_until(lambda: loop.rounds == 1, 5, "the first round")
    clock.set_by += timedelta(hours=hours)
    wait_until(lambda: loop.rounds == 2, 5, "a round")
    renewals = election.asked
    wait_until(lambda: election.asked >= renewals + 3, 5, "more renewals")
    assert loop.rounds == 2


class TimersByHand:
    """A scheduler whose jobs run when the test says so."""

    def __init__(self, **_: object) -> None:
        self.running = False
        self.calls: list[Callable[[], None]] = []
        self.set_anew = 0

    def add_job(self, call: Callable[[], None], *_: object, **__: object) -> None:
        self.calls.append(call)

    def reschedule_job(self, *_: object, **__: object) -> None:
        self.set_anew += 1

    def start(self) -> None:
        self.running = True

    def shutdown(self, wait: bool) -> None:
        self.running = False


class ElectionByHand(FakeElection):
    """Is held when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.may_be_held = threading.Semaphore(0)

    def take(self) -> int | None:
        assert self.may_be_held.acquire(timeout=10)
        return super().take()


def test_a_timer_that_was_set_by_a_clock_since_put_right_is_set_anew(
    loops: list[LeaderLoop], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between two renewals: 1. the clock is set an hour ahead; 2. the timer fires, and is next due by that; 3. the
    clock is put right."""
    timers, clock, election = TimersByHand(), SettableClock(), ElectionByHand()
    monkeypatch.setattr("penstock.control.loop.Timers", lambda **_: timers)
    make_loop(loops, lambda _: None, election, clock=clock).start()
    election.may_be_held.release(2)
    wait_until(lambda: election.asked == 2, 5, "a renewal")
    clock.set_by = timedelta(hours=1)
    for call in timers.calls:
        call()
    clock.set_by = timedelta()
    # The stop waits for renewals: from here on they are held.
    election.may_be_held.release(1000)
    assert wait_until(lambda: timers.set_anew > 0, 5, "the timer to be set anew")


class StopsAtOnce(BaseExecutor):
    """Runs no job: the scheduler is stopped while it hands out the first one."""

    def __init__(self, timers: Timers) -> None:
        super().__init__()
        self._timers = timers

    def _do_submit_job(self, job: object, run_times: object) -> None:
        self._timers.state = STATE_STOPPED


def test_timers_that_are_stopped_while_a_job_fires_end_quietly() -> None:
    """1. The scheduler runs, but its own thread waits. 2. A job is due that fires once. 3. The scheduler is stopped
    while its thread hands the job out."""
    timers = Timers(timezone=UTC)
    timers.add_executor(StopsAtOnce(timers))
    timers.add_job(lambda: None, DateTrigger(datetime(2026, 1, 1, tzinfo=UTC)), id="wake", misfire_grace_time=None)
    BaseScheduler.start(timers, paused=True)
    timers.state = STATE_RUNNING
    with pytest.raises(JobLookupError):
        timers.remove_job("other")
    timers._process_jobs()
    assert not timers.running


def test_renewals_outlive_their_bugs(loops: list[LeaderLoop]) -> None:
    """1. An election breaks in a way that nobody thought of. 2. `/readyz` says so. 3. The next one is held."""
    election = FakeElection()
    election.answer = ZeroDivisionError("a bug")
    loop = make_loop(loops, lambda _: None, election)
    loop.start()
    wait_until(lambda: election.asked >= 2, 5, "elections")
    with pytest.raises(Unavailable, match="a bug"):
        loop.status()
    election.answer = 1
    wait_until(lambda: loop.rounds == 1, 5, "a round")


def test_a_standby_runs_no_round_until_it_leads(loops: list[LeaderLoop]) -> None:
    election = FakeElection(epoch=None)
    epochs: list[int] = []
    loop = make_loop(loops, epochs.append, election)
    loop.start()
    loop.wake()
    wait_until(lambda: election.asked >= 3, 5, "elections")
    assert epochs == []
    assert loop.status() == {"role": "standby", "epoch": None}
    election.answer = 4
    wait_until(lambda: epochs, 5, "a round as leader")
    assert epochs == [4]
    assert loop.status() == {"role": "leader", "epoch": 4}


def failing_round(errors: list[Exception]) -> Callable[[int], None]:
    def round_(_: int) -> None:
        if errors:
            raise errors.pop(0)

    return round_


@pytest.mark.parametrize(
    ("error", "failures"),
    [
        (Fenced("a newer leader"), 0),
        (Unavailable("store"), 1),
        (StatementTimedOut("too slow", statement="SELECT", limit_seconds=30.0), 1),
        (ZeroDivisionError("a bug"), 1),
    ],
)
def test_a_round_that_fails_is_followed_by_the_next(loops: list[LeaderLoop], error: Exception, failures: int) -> None:
    loop = make_loop(loops, failing_round([error]), FakeElection(), period_seconds=0.02)
    loop.start()
    wait_until(lambda: loop.rounds >= 1, 5, "a round that works")
    assert loop.failures == failures


def test_rounds_are_timed_and_the_leader_is_shown(loops: list[LeaderLoop]) -> None:
    before = timed()
    loop = make_loop(loops, failing_round([Unavailable("store")]), FakeElection(), period_seconds=0.02)
    loop.start()
    wait_until(lambda: timed() >= before + 2, 5, "the round that fails, and one more")
    assert REGISTRY.get_sample_value("penstock_loop_leader", {"loop": "test"}) == 1.0


def timed() -> float:
    """How many rounds were timed."""
    samples = [sample for family in ROUND_SECONDS.collect() for sample in family.samples]
    return sum(each.value for each in samples if each.name.endswith("_count") and each.labels["loop"] == "test")


def test_a_round_that_times_out_in_the_store_shows_and_is_counted_until_one_succeeds(loops: list[LeaderLoop]) -> None:
    """1. A statement of a round times out. 2. Status and metric name the error. 3. The next round clears the status."""
    error = StatementTimedOut("the store ended it", statement="UPDATE running", limit_seconds=30.0)
    counted = ROUND_FAILURES.labels("test", "StatementTimedOut")
    before = counted._value.get()
    loop = make_loop(loops, failing_round([error]), FakeElection())
    loop.start()
    wait_until(lambda: loop.failures == 1, 5, "the round that times out")
    assert loop.status() == {"role": "leader", "epoch": 1, "round_error": "StatementTimedOut: the store ended it"}
    assert counted._value.get() == before + 1
    loop.wake()
    wait_until(lambda: loop.rounds == 1, 5, "a round that works")
    assert loop.status() == {"role": "leader", "epoch": 1}


def test_an_election_that_cannot_be_held_shows_in_the_status(loops: list[LeaderLoop]) -> None:
    election = FakeElection()
    election.answer = Unavailable("the job store cannot be reached")
    loop = make_loop(loops, lambda _: None, election)
    loop.start()
    wait_until(lambda: loop.unreachable, 5, "a failed election")
    with pytest.raises(Unavailable, match="cannot be reached"):
        loop.status()
    election.answer = 2
    wait_until(lambda: loop.rounds, 5, "a round after all")
    assert loop.status() == {"role": "leader", "epoch": 2}


def test_stop_ends_after_the_round_in_progress_and_gives_the_lease_up() -> None:
    working, go_on, finished = threading.Event(), threading.Event(), []
    election = FakeElection()

    def round_(epoch: int) -> None:
        working.set()
        assert go_on.wait(5)
        finished.append(epoch)

    loop = make_loop([], round_, election)
    loop.start()
    assert working.wait(5)
    loop.wake()
    stopper = threading.Thread(target=loop.stop)
    stopper.start()
    go_on.set()
    stopper.join(5)
    assert finished == [1]
    assert election.released == 1


def test_leadership_ends_by_the_own_clock_though_the_store_is_away() -> None:
    """1. Elected. 2. The store goes away. 3. The epoch holds until the lease is over, counted from the asking."""
    time, election = Time(), FakeElection(epoch=3)
    leadership = Leadership("test", election, 10.0, time)
    assert leadership.renew() == 3
    election.answer = Unavailable("gone")
    time.seconds += 9.9
    with pytest.raises(Unavailable):
        leadership.renew()
    assert leadership.epoch == 3
    time.seconds += 0.2
    assert leadership.epoch is None


def test_a_slow_election_does_not_lengthen_the_lease() -> None:
    time = Time()

    class SlowElection(FakeElection):
        def take(self) -> int | None:
            time.seconds += 11.0
            return super().take()

    assert Leadership("test", SlowElection(), 10.0, time).renew() is None


def test_losing_the_election_ends_leadership_at_once() -> None:
    election = FakeElection(epoch=3)
    leadership = Leadership("test", election, 10.0, Time())
    leadership.renew()
    election.answer = None
    assert leadership.renew() is None
    assert leadership.epoch is None


def test_readiness_shows_the_first_line_of_an_error_only(loops: list[LeaderLoop]) -> None:
    def broken(_: int) -> None:
        raise ValueError("cannot be converted\n[SQL: INSERT ...]\n[parameters: secret]")

    loop = make_loop(loops, broken, FakeElection())
    loop.start()
    wait_until(lambda: loop.failures == 1, 10, "the round")
    assert loop.status()["round_error"] == "ValueError: cannot be converted"
