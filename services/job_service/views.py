"""Rows of the store as the answers of the API. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

from penstock.config.model import DesiredState, JobConfig
from penstock.tasks.loads import TaskLoad
from penstock.tasks.selectors import selector_of
from penstock.tasks.shards import Sharding
from penstock.tasks.spec import task_id
from penstock.wire.jobs import FieldChangeView, PlanView, View
from penstock.wire.overview import GenerationView, SyncView, TaskView
from services.job_service.plans import Plan

UNKNOWN = "unknown"
ViewType = TypeVar("ViewType", bound=View)


class Running(Protocol):
    """What is used of the running configuration."""

    @property
    def config(self) -> Mapping[str, Any]:
        """The configuration, defaults included."""
        ...

    @property
    def stopping(self) -> bool:
        """Whether the job's tasks must end."""
        ...


class Place(NamedTuple):
    """A task and its shard, None when it is to run nowhere; `expected` false: only reported."""

    task: str
    number: int
    shard: int | None
    expected: bool


def view_of(kind: type[ViewType], row: Any) -> ViewType:
    """The view whose fields are the row's, by name."""
    return kind(**{name: getattr(row, name) for name in kind.model_fields})


def plan_view(job: str, layer: str, version: int, plan: Plan, after: JobConfig) -> PlanView:
    """A plan as an answer; `version` is the layer's now."""
    return PlanView(
        job=job,
        layer=layer,
        version=version,
        kind=plan.kind.name.lower(),
        allowed=plan.allowed,
        fields=[FieldChangeView(**change.as_json()) for change in plan.fields],
        steps=list(plan.steps),
        waves=[list(wave) for wave in plan.waves],
        completeness=plan.completeness,
        tasks_touched=list(plan.tasks_touched),
        downtime_seconds=plan.downtime_seconds,
        catch_up_seconds=plan.catch_up_seconds,
        config=after.model_dump(mode="json"),
    )


def places(job: str, running: Running | None, reported: Sequence[Any], sharding: Sharding) -> list[Place]:
    """The tasks that the running configuration has, and the others that are reported."""
    asked = None if running is None else selector_of(running.config)
    expected = range(_task_count(running))
    indexes = sorted({*expected, *(task.index for task in reported)})
    names = [task_id(job, index) for index in indexes]
    return [
        Place(name, index, sharding.shard_of(name, asked), index in expected)
        for name, index in zip(names, indexes, strict=True)
    ]


def task_views(
    places: Sequence[Place], reported: Sequence[Any], owners: Mapping[int, str | None], loads: Sequence[TaskLoad]
) -> list[TaskView]:
    """One view a report, and one with the state `unknown` for each task that nobody reports."""
    load_of = {load.number: dict(load.load) for load in loads}
    reports: dict[int, list[Any]] = {}
    for task in reported:
        reports.setdefault(task.index, []).append(task)
    return [
        _task_view(place, owners, report, load_of.get(place.number))
        for place in places
        for report in reports.get(place.number, [None])
    ]


def sync_view(
    status: Any,
    sync: Any | None,
    running: Any | None,
    noted: Sequence[GenerationView],
    changed_fields: list[str] | None,
) -> SyncView:
    """How far a job is; None where the State Syncer has not been yet."""
    same = ("detail", "change_kind", "step", "failures", "next_attempt_at", "updated_at")
    return SyncView(
        job=status.job,
        state=status.state,
        expected_revision=status.revision,
        running_revision=status.running_revision,
        generation=status.generation,
        commit_number=None if running is None else running.commit_number,
        committed_at=None if running is None else running.committed_at,
        sync_revision=None if sync is None else sync.revision,
        changed_fields=changed_fields,
        rejected=None if sync is None else sync.rejected,
        plan=None if sync is None or sync.plan is None else _plan(sync.plan),
        generations=list(noted),
        **{name: None if sync is None else getattr(sync, name) for name in same},
    )


def _plan(recorded: Mapping[str, Any]) -> dict[str, Any]:
    """A recorded plan without configurations, which the layers and the savepoint give."""
    shown = {name: value for name, value in recorded.items() if name != "config"}
    restore = recorded.get("restore")
    if restore is not None:
        shown["restore"] = {name: value for name, value in restore.items() if name != "config"}
    return shown


def _task_view(
    place: Place, owners: Mapping[int, str | None], report: Any | None, load: dict[str, float] | None
) -> TaskView:
    about = {"task": place.task, "index": place.number, "shard": place.shard} | {
        "expected": place.expected,
        "owner": None if place.shard is None else owners.get(place.shard),
        "load": load,
    }
    if report is None:
        return TaskView(**about, state=UNKNOWN)
    named = {name: getattr(report, name) for name in TaskView.model_fields if name not in about}
    return TaskView(**about, **named)


def _task_count(running: Running | None) -> int:
    """The tasks that should exist."""
    if running is None or running.stopping or running.config.get("desired_state") == DesiredState.STOPPED:
        return 0
    return int(running.config.get("task_count", 1))
