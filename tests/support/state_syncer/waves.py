"""A rollout as its planner sees it: a job of six tasks that gets version 2 of its package."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from penstock.model.jobs import JobState
from penstock.tasks.rollout import SeenTask
from services.state_syncer.decide.change import decide
from services.state_syncer.decide.decisions import Poll, Record, StartRollout
from services.state_syncer.decide.next_step import next_step
from services.state_syncer.decide.rollout import begin_rollout
from services.state_syncer.decide.view import JobView, Running, SyncRecord
from services.state_syncer.decide.waves import Rolling, RolloutPolicy
from tests.support.store.jobs import make_config

NOW = datetime(2026, 1, 1, tzinfo=UTC)
POLICY = RolloutPolicy()
TASKS = 6
ENDS = (1, 3, 5, 6)


def config(version: str = "1", **overrides: Any) -> dict[str, Any]:
    return make_config(task_count=TASKS, package={"name": "flights", "version": version}, **overrides)


OLD, NEW = config("1"), config("2")
RUNNING = Running(OLD, revision=5, generation=3, restarts=0, stopping=False, started=True, commit_number=9)


def view(expected: Any = NEW, running: Running = RUNNING, revision: int = 6, **fields: Any) -> JobView:
    values: dict[str, Any] = {"job": "j", "restarts": 0, "deleting": False, "sync": SyncRecord(JobState.SYNCED, 5)}
    return JobView(expected=expected, running=running, revision=revision, **(values | fields))


def begun(job: JobView | None = None) -> Any:
    job = job or view()
    decision = decide(job, NOW)
    assert isinstance(decision, StartRollout)
    return begin_rollout(job, decision, NOW, POLICY)


def committed(roll: Any, running: Running = RUNNING) -> Running:
    """What runs once the wave is committed."""
    commit = roll.commit
    return replace(
        running, config=commit.config, revision=commit.revision, restarts=commit.restarts, rollout=commit.rollout
    )


def rolling(roll: Any, *tasks: SeenTask | None, **fields: Any) -> JobView:
    """The job in the wave, with what is seen of its tasks by index."""
    seen = {index: task for index, task in enumerate(tasks) if task is not None}
    found = {"running": committed(roll), "rolling": Rolling(roll.plan, seen), "revision": roll.plan.revision}
    return view(**(found | fields))


def task(state: str = "running", revision: int = 6, crashes: int = 0, *, worked: bool = False, **fields: Any) -> Any:
    return SeenTask(state, revision, 3, 0, crashes, "no module" if crashes else None, worked)._replace(**fields)


def after(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def step(job: JobView, seconds: float = 1.0) -> Any:
    return next_step(job, after(seconds), POLICY)


def kind_of(decision: Any) -> str:
    """What is done about the wave: the next one, a halt, a pause since it is late, a record of what is seen, or a
    further look."""
    match decision:
        case Record(rejected=rejected) if rejected is not None:
            return "halt"
        case Record(plan=plan, commit=None) if plan.late:
            return "late"
        case Record(commit=commit):
            return "record" if commit is None else "next"
        case Poll():
            return "poll"
    return type(decision).__name__
