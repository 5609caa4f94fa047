"""Replays that are asked for: how many at once, and for how long."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from functools import partial
from itertools import count
from typing import Any, cast

import pytest

from penstock.control.errors import InvalidConfig, NotFound, Unavailable
from penstock.model.job_metrics import MINUTE, JobMinutes
from penstock.wire.replays import ReplayCall, ReplayRequest
from services.auto_scaler.decide.estimates import TaskMinute
from services.auto_scaler.decide.policy import Mode, Policy
from services.auto_scaler.replay.recorded import Known, recorded_job
from services.auto_scaler.replay.rounds import JobRounds, SeenMinute
from services.auto_scaler.replays import MOST_SECONDS, Replays
from services.auto_scaler.store.port import Recorded, ScalingStore
from tests.support.auto_scaler import NOW, job, state

WAIT_SECONDS = 20.0


class Store:
    """A store that answers a replay with what a function says."""

    def __init__(self, answer: Callable[[], Recorded | None]) -> None:
        self._answer = answer

    def recorded(self, job: str, before: datetime, since: datetime, until: datetime, policy: Policy) -> Recorded | None:
        """What is recorded."""
        return self._answer()


def replays(answer: Callable[[], Recorded | None], monotonic: Callable[[], float] = time.monotonic) -> Replays:
    return Replays(cast(ScalingStore, Store(answer)), lambda: NOW, Policy(), monotonic)


def lagging(tasks: int, minutes: int) -> Recorded:
    """A job that lags from the first minute on: 200 rows/s come to each task, which gets through 100."""
    columns = {
        "input_rows_per_second": 100.0 * tasks,
        "processed_rows_per_second": 100.0 * tasks,
        "busy_share": 1.0,
        "lag_seconds": 600.0,
        "tasks_running": float(tasks),
    }
    values: dict[str, tuple[float | None, ...]] = {name: (value,) * minutes for name, value in columns.items()}
    values["backlog_records"] = tuple(100.0 * 60 * tasks * (at + 1) for at in range(minutes))
    since = NOW - minutes * MINUTE
    present = Known(NOW, job(tasks), state(declared_task_count=1))
    return Recorded(recorded_job("j", since, JobMinutes(since, values), [], present, None, Policy()), is_cut=False)


def seen(at: datetime, by_task: Callable[[], list[TaskMinute]]) -> SeenMinute:
    """A minute of four tasks that lag since long ago."""
    return SeenMinute(
        at=at,
        started_at=NOW - timedelta(hours=2),
        tasks=4,
        memory_bytes=2**30,
        read=400.0,
        backlog=240_000.0,
        is_measured=True,
        lags=True,
        out_of_memory=False,
        memory_used=None,
        busiest=TaskMinute(at, 0, 100.0, 100.0, 60_000.0),
        by_task=by_task,
    )


def call(**policy: Any) -> ReplayCall:
    return ReplayCall(job="j", request=ReplayRequest(policy=policy, since=NOW - timedelta(hours=6)))


def test_another_replay_is_refused_at_once_and_the_next_one_is_let_in() -> None:
    """1. A replay waits for the store. 2. Another is refused while it does. 3. After its end the next one begins."""
    asked, may_end = threading.Event(), threading.Event()

    def wait() -> None:
        asked.set()
        assert may_end.wait(WAIT_SECONDS)

    asking = replays(wait)
    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(asking.replay, call())
        assert asked.wait(WAIT_SECONDS)
        second = threads.submit(asking.replay, call())
        try:
            with pytest.raises(Unavailable, match="another replay is under way"):
                second.result(timeout=WAIT_SECONDS / 2)
        finally:
            may_end.set()
        with pytest.raises(NotFound):
            first.result()
    with pytest.raises(NotFound):
        asking.replay(call())


def test_a_replay_that_takes_too_long_is_ended_and_the_next_one_is_let_in() -> None:
    """A clock that goes a second each time it is asked ends the run within the first minutes of the job."""
    seconds, found = count(), lagging(2, 360)
    asking = replays(lambda: found, lambda: float(next(seconds)))
    for _ in range(2):
        began = next(seconds)
        with pytest.raises(InvalidConfig, match="take a shorter time") as ended:
            asking.replay(call())
        assert (ended.value.field, ended.value.rule) == ("since", "most_seconds")
        assert next(seconds) - began < MOST_SECONDS + 5


def test_a_minute_is_asked_for_its_tasks_once_for_all_rounds_in_which_it_is_among_the_latest() -> None:
    asked: Counter[datetime] = Counter()
    config = job(4, slo={"max_lag_seconds": 90.0})
    rounds = JobRounds("j", Policy(load_minutes=10, cooldown_seconds=0.0, mode=Mode.ADVISE))

    def of_tasks(at: datetime) -> list[TaskMinute]:
        asked[at] += 1
        return [TaskMinute(at, task, 100.0, 100.0, 60_000.0) for task in range(4)]

    for number in range(12):
        at = NOW + number * MINUTE
        rounds.decide(seen(at, partial(of_tasks, at)), config, state())
    # Once more for the symptoms of the minute itself.
    assert max(asked.values()) == 2
