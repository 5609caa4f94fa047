"""What a change would do, for people who are about to confirm it. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from penstock.config.merge import leaves
from penstock.control.texts import first_few
from penstock.wire.jobs import AnalysisView, PlanView
from services.console.views.diffs import Difference, differences
from services.console.views.words import seconds

_WATERMARKS = {
    "wait": "tasks that are behind first read up to the others (completeness: wait)",
    "drop_late": "rows that slow tasks have not read yet are dropped as late (completeness: drop_late)",
}
_KINDS = {
    "none": "changes nothing that runs",
    "live": "running tasks take it over without a restart",
    "restart": "the tasks are restarted; their state is kept",
    "rescale": "the tasks stop, and their checkpoints are redistributed",
    "forbidden": "it needs a new job",
}


@dataclass(frozen=True, slots=True)
class ShownPlan:
    """A plan in words."""

    view: PlanView
    kind: str
    changes: tuple[tuple[str, Difference], ...]
    costs: tuple[str, ...]
    steps: tuple[str, ...]
    problems: tuple[str, ...]
    notes: tuple[str, ...]


def shown(plan: PlanView) -> ShownPlan:
    """The plan as the page shows it."""
    waves = {f"wave_{number}": f": {', '.join(tasks)}" for number, tasks in enumerate(plan.waves, 1)}
    return ShownPlan(
        view=plan,
        kind="it has never run" if plan.is_new else _KINDS.get(plan.kind, plan.kind),
        changes=tuple(
            (each.kind, found) for each in plan.fields for found in differences(each.old, each.new, each.field)
        ),
        costs=tuple(_costs(plan)),
        steps=tuple(f"{step}{waves.get(step, '')}" for step in plan.steps),
        problems=tuple(_problems(plan.analysis)),
        notes=(*plan.notes, *_notes(plan.analysis)),
    )


def set_now(config: Mapping[str, Any] | None) -> str:
    """The fields that a layer sets; empty without any."""
    return first_few([".".join(path) for path, _ in leaves(config or {})])


def _costs(plan: PlanView) -> Iterator[str]:
    count = len(plan.tasks_touched)
    yield f"touches {count} {'task' if count == 1 else 'tasks'}"
    if count:
        yield f"down for {_time(plan.downtime_seconds)}"
        yield f"catches up in {_time(plan.catch_up_seconds)}"
    if plan.completeness is not None:
        yield _WATERMARKS[plan.completeness]


def _time(value: float | None) -> str:
    return "an unknown time" if value is None else seconds(value)


def _problems(analysis: AnalysisView | None) -> Iterator[str]:
    for problem in analysis.problems if analysis is not None else ():
        yield f"{problem.get('field')} ({problem.get('rule')}): {problem.get('detail')}"


def _notes(analysis: AnalysisView | None) -> Iterator[str]:
    if analysis is not None and not analysis.verified and (analysis.why or not analysis.problems):
        yield f"not verified by Spark: {analysis.why or 'no host could be asked'}"
