"""`penstock plan`: what a change would do."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.cli.arguments import AsJson, Config, Job, Layer
from penstock.cli.connection import client
from penstock.cli.output import say, show_json, table
from penstock.cli.parse import json_object
from penstock.wire.jobs import PlanView

_WATERMARKS = {
    "wait": "tasks that are behind first read up to the others (completeness: wait)",
    "drop_late": "rows that slow tasks have not read yet are dropped as late (completeness: drop_late)",
}


def plan(job: Job, layer: Layer, config: Config, as_json: AsJson = False) -> None:
    """Show what a change would do, without making it.

    Prints the fields that change, the steps, the tasks that restart, and for how long they are down.
    """
    answer = client().plan(job, json_object(config), layer=layer)
    if as_json:
        return show_json(answer)
    rows = [(change.field, change.old, change.new, change.kind) for change in answer.fields]
    table(("field", "old", "new", "change kind"), rows, title=f"{job}: change kind {answer.kind}")
    for sentence in plan_outcome(answer):
        say(sentence)
    return None


def plan_outcome(answer: PlanView) -> Iterator[str]:
    """The steps of a plan and what they cost, one line each."""
    waves = {f"wave_{number}": f": {', '.join(tasks)}" for number, tasks in enumerate(answer.waves, 1)}
    yield from (f"{number}. {step}{waves.get(step, '')}" for number, step in enumerate(answer.steps, 1))
    times = (("down for", answer.downtime_seconds), ("catches up in", answer.catch_up_seconds))
    costs = [f"{what} {'an unknown time' if value is None else f'{value:,.1f} s'}" for what, value in times]
    yield f"touches {len(answer.tasks_touched)} tasks; {'; '.join(costs)}"
    if answer.completeness is not None:
        yield f"watermarks: {_WATERMARKS[answer.completeness]}"
    if not answer.allowed:
        yield "NOT ALLOWED: the write would be refused"
