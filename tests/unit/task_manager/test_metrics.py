"""What the Task Manager exports of its tasks."""

from __future__ import annotations

from penstock.model.reports import TaskProgress
from services.task_manager.decide.model import Observed
from services.task_manager.metrics import ContainerCollector
from services.task_manager.reporting import Summary, event_time_skews


def test_the_skew_of_the_tasks_that_know_it() -> None:
    progress = {
        "a/0": TaskProgress(event_time_skew_seconds=90.5),
        "a/1": TaskProgress(event_time_skew_seconds=0.0),
        "b/0": TaskProgress(),
    }
    assert _exported(event_time_skews(progress)) == {"a/0": 90.5, "a/1": 0.0}
    assert _exported({}) == {}


def _exported(skew_seconds: dict[str, float]) -> dict[str, float]:
    summary = Summary(
        incarnation="i",
        lease_seconds_left=1.0,
        shards={},
        version=1,
        commit_number=None,
        observed=Observed(),
        waiting=0,
        totals={},
        past_lease_seconds=0.0,
        double_run_seconds=0.0,
        event_time_skew_seconds=skew_seconds,
    )
    families = {family.name: family for family in ContainerCollector(lambda: summary).collect()}
    samples = families["penstock_task_event_time_skew_seconds"].samples
    return {sample.labels["task"]: sample.value for sample in samples}
