"""A round over a store that fails for one job, or has more to do than a round may."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import timedelta
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.control.errors import Fenced, StatementTimedOut, Unavailable
from services.auto_scaler.decide.estimates import TaskMinute
from services.auto_scaler.decide.policy import Policy
from services.auto_scaler.decide.symptoms import TaskSample
from services.auto_scaler.evidence import Dealing, Past, ScaledJob
from services.auto_scaler.loop import AutoScaler
from services.auto_scaler.store.port import Cluster
from tests.support.auto_scaler import NOW, QUIET
from tests.support.store.jobs import make_config


class FakeStore:
    """Jobs by name with the backlog of each of their two tasks. `fails`: what a read of one job raises."""

    def __init__(self, backlogs: Mapping[str, int], fails: Mapping[str, Exception] | None = None) -> None:
        self.backlogs, self.fails = backlogs, fails or {}
        self.ids = count(1)
        self.kept: Collection[str] = ()

    def read(self, now: object) -> Cluster:
        samples = {job: [_sample(index, backlog) for index in range(2)] for job, backlog in self.backlogs.items()}
        return Cluster([_job(job) for job in self.backlogs], samples, 8 * 2**30)

    def recent(self, job: str, since: object) -> list[TaskMinute]:
        if job in self.fails:
            raise self.fails[job]
        return []

    def dealing(self, job: str, *given: object, **named: object) -> Dealing:
        return Dealing((), (), None, ())

    def past(self, job: str, now: object, **given: object) -> Past:
        return Past(QUIET, [], None)

    def record(self, new: Sequence[object], leader_epoch: int) -> list[int]:
        return [next(self.ids) for _ in new]

    def record_outcome(self, decision_id: int, outcome: str) -> None:
        """Nothing is asked about it."""

    def replace_alerts(self, found: object, keep: Collection[str], leader_epoch: int) -> None:
        self.kept = keep


class FakeJobs:
    def __init__(self) -> None:
        self.changed: list[str] = []

    def patch_layer(self, job: str, *given: Any, **named: Any) -> SimpleNamespace:
        self.changed.append(job)
        return SimpleNamespace(revision=1)


def _job(name: str) -> ScaledJob:
    days_ago = NOW - timedelta(days=2)
    config = make_config(task_count=2, inputs={"events": {"key_groups": 64}})
    return ScaledJob(name, days_ago, config, days_ago, True, 0, (), (), None, None)


def _sample(index: int, backlog: int) -> TaskSample:
    return TaskSample(
        index=index, out_of_memory=False, processed_rows_per_second=100.0, backlog_records=backlog, backlog_bytes=None
    )


def scaler(store: FakeStore, jobs: FakeJobs, **policy: Any) -> Callable[[], None]:
    """Does a round."""
    loop = AutoScaler(store, jobs, lambda: NOW, Policy(**policy))  # type: ignore[arg-type]
    return lambda: loop.round(1)


@pytest.mark.parametrize("error", [StatementTimedOut("it took 30 s"), ZeroDivisionError()])
def test_a_job_that_cannot_be_decided_about_holds_up_no_other(error: Exception) -> None:
    """Its alert stays, since it may lag still."""
    store, jobs = FakeStore({"a": 90_000, "b": 90_000}, {"a": error}), FakeJobs()
    scaler(store, jobs)()
    assert (jobs.changed, set(store.kept)) == (["b"], {"a", "b"})


@pytest.mark.parametrize("error", [Unavailable("down"), Fenced("another leads")])
def test_without_the_store_or_the_lease_the_round_ends(error: Exception) -> None:
    store, jobs = FakeStore({"a": 90_000, "b": 90_000}, {"a": error}), FakeJobs()
    with pytest.raises(type(error)):
        scaler(store, jobs)()
    assert jobs.changed == []


def test_jobs_that_lag_are_changed_before_others() -> None:
    """The last job by name lags, the others may give tasks back, and a round changes one."""
    store, jobs = FakeStore({"a": 0, "b": 0, "c": 0, "z": 90_000}), FakeJobs()
    do_round = scaler(store, jobs, max_actions_per_round=1, history_every_minutes=0)
    for _ in range(4):
        do_round()
    assert jobs.changed == ["z"] * 4


def test_jobs_without_symptom_take_turns() -> None:
    """A round changes one, and the same could be changed in each."""
    store, jobs = FakeStore({"a": 0, "b": 0, "c": 0}), FakeJobs()
    do_round = scaler(store, jobs, max_actions_per_round=1, history_every_minutes=0)
    for _ in range(10):
        do_round()
    assert set(jobs.changed) == {"a", "b", "c"}
