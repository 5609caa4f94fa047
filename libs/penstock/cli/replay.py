"""Another scaling policy over what is recorded of jobs: what happened, and what a model says of two policies."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Annotated, Any

import typer

from penstock.cli.arguments import AsJson
from penstock.cli.bar import counting
from penstock.cli.connection import client
from penstock.cli.output import note, say, show_json, table
from penstock.cli.parse import duration_seconds, json_object
from penstock.control.errors import NotFound, UserError
from penstock.wire.jobs import View
from penstock.wire.replays import HAS_NO_TASKS, ReplayTotals, ReplayView

_ROWS = {
    "measured": "measured",
    "model_of_measured": "model: what ran",
    "in_force": "model: policy in force",
    "proposed": "model: this policy",
}
_ALL = "all"


class Replays(View):
    """The answer: of each job, and the sums by the same names."""

    jobs: list[ReplayView]
    all: dict[str, ReplayTotals]


def replay(
    policy: Annotated[str, typer.Option("--policy", help="a JSON object of policy fields, or a file of one")],
    jobs: Annotated[list[str] | None, typer.Argument(help="names of jobs; default: all jobs")] = None,
    begin: Annotated[
        str, typer.Option("--from", help="a time such as 2026-11-20T08:00Z, or how long ago: 7d; `since` in the API")
    ] = "1d",
    end: Annotated[str | None, typer.Option("--to", help="the same; default: now; `until` in the API")] = None,
    as_json: AsJson = False,
) -> None:
    """Show what another scaling policy would have done to jobs: SLO minutes missed, task-hours, actions.

    `measured` is what happened. What another policy would have led to was never measured, so a model tells it: compare
    the policy in force and this policy in the model's rows. The model's row of what ran shows its error. Fields that
    the policy does not name have their defaults. Nothing is changed.

    At most 14 days. A job that takes more than 60 s, or another replay at the same time, ends the command: then name
    fewer jobs or a shorter time.
    """
    content = json_object(policy, field="policy")
    now = datetime.now(UTC)
    since, until = moment(begin, now, field="from"), now if end is None else moment(end, now, field="to")
    if since >= until:
        raise UserError("--from must lie before --to", field="from", rule="before_to")
    connection = client()
    asked = partial(connection.replay, policy=content, since=since, until=until)
    with counting("replaying jobs", jobs or [job.job for job in connection.list_jobs()]) as names:
        found = [asked(name) for name in names] if jobs else list(with_tasks(names, asked))
    if as_json:
        return show_json(Replays(jobs=found, all={name: total(found, name) for name in _ROWS}))
    table(("job", "", "SLO min missed", "task-hours", "actions"), rows(found))
    for line in lines(found):
        say(line)
    return None


def with_tasks(jobs: Iterable[str], asked: Callable[[str], ReplayView]) -> Iterator[ReplayView]:
    """The replays of those jobs that run."""
    for job in jobs:
        try:
            yield asked(job)
        except NotFound as error:
            if error.rule != HAS_NO_TASKS:
                raise
            note(f"{job} is left out: it has no tasks")


def moment(text: str, now: datetime, *, field: str) -> datetime:
    """A time with a zone, or a duration before now. Raises UserError."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return now - timedelta(seconds=duration_seconds(text, field=field))
    if at.tzinfo is None:
        raise UserError(f"{text} has no time zone: write {text}Z for UTC", field=field, rule="time_zone")
    return at


def total(found: Sequence[ReplayView], name: str) -> ReplayTotals:
    """The sum over jobs of one kind of figures."""
    each: list[ReplayTotals] = [getattr(one, name) for one in found]
    return ReplayTotals(
        slo_minutes_missed=sum(one.slo_minutes_missed for one in each),
        task_hours=round(sum(one.task_hours for one in each), 2),
        actions=sum(one.actions for one in each),
    )


def rows(found: Sequence[ReplayView]) -> Iterator[Sequence[Any]]:
    """Four rows for each job, and for all of several."""
    for one in found:
        yield from ((one.job, title, *figures(getattr(one, name))) for name, title in _ROWS.items())
    if len(found) > 1:
        yield from ((_ALL, title, *figures(total(found, name))) for name, title in _ROWS.items())


def figures(of: ReplayTotals) -> tuple[Any, ...]:
    """The three cells."""
    return of.slo_minutes_missed, of.task_hours, of.actions


def lines(found: Sequence[ReplayView]) -> Iterator[str]:
    """What the table leaves out, a line for each job."""
    for one in found:
        said = [
            f"{one.decisions_otherwise} of {one.decisions} stored decisions would be others on the same inputs",
            *one.notes,
        ]
        yield f"{one.job}: {'; '.join(said)}"
