"""Commands about the cluster: shards, alerts, the field table, and a live view."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from typing import Annotated

import typer
from rich.live import Live
from rich.table import Table

from penstock.cli.jobs import AsJson, Job, client, say_more
from penstock.cli.output import cell, figure, out, rich_table, say, show_json, table
from penstock.control.errors import NotFound, RetryableError
from penstock.wire.job_client import JobClient
from penstock.wire.jobs import FieldView, JobSummary
from penstock.wire.overview import ShardCount, total


def add_to(app: typer.Typer) -> None:
    """Adds the commands to the program."""
    for command in (shards, alerts, fields, decisions, top):
        app.command()(command)


def shards(
    as_json: AsJson = False,
    wanted: Annotated[
        int | None, typer.Option("--set", min=1, help="ask for so many: a multiple or a divisor of the present number")
    ] = None,
) -> None:
    """How many shards each container owns; every shard with --json. With --set: asks for another number of shards."""
    if wanted is not None:
        asked = client().ask_for_shards(wanted)
        return show_json(asked) if as_json else say(_count(asked))
    page = client().shards()
    if as_json:
        return show_json(page)
    counts = Counter(shard.container for shard in page.shards)
    rows = [(name or "nobody", count) for name, count in sorted(counts.items(), key=lambda of: of[0] or "")]
    table(("container", "shards"), rows, title=_count(page))
    return say_more(page.next)


def _count(told: ShardCount) -> str:
    there = f"{told.shard_count} shards"
    return there if told.wanted_shard_count == told.shard_count else f"{there}, on the way to {told.wanted_shard_count}"


def alerts(as_json: AsJson = False) -> None:
    """Open alerts, newest first."""
    page = client().alerts()
    if as_json:
        return show_json(page)
    rows = [(a.kind, a.subject, a.message, a.times, a.raised_at) for a in page.alerts]
    table(("kind", "subject", "message", "times", "raised"), rows)
    return say_more(page.next)


def fields(as_json: AsJson = False) -> None:
    """The field table: what a job can be told, who may set it, and what a change costs."""
    answer = client().fields()
    if as_json:
        return show_json(*answer)
    rows = [(f.path, f"{f.type}, {f.unit}" if f.unit else f.type, *_rules(f), f.documentation) for f in answer]
    return table(("field", "type", "default", "change kind", "layers", "documentation"), rows)


def _rules(field: FieldView) -> tuple[str, str, str]:
    default = "required" if field.required else cell(field.default)
    return default, field.change, ", ".join(field.layers)


def decisions(job: Job, as_json: AsJson = False) -> None:
    """The Auto Scaler's decisions about a job, newest first."""
    page = client().decisions(job)
    if as_json:
        return show_json(page)
    rows = [(d.at, d.symptom, d.action, d.change, d.outcome) for d in page.decisions]
    table(("when", "symptom", "action", "change", "outcome"), rows)
    return say_more(page.next)


def top(
    every: Annotated[float, typer.Option(min=0.1, help="seconds between looks")] = 2.0,
    looks: Annotated[int | None, typer.Option(min=1, help="end after so many looks; for ever if absent")] = None,
    prefix: Annotated[str | None, typer.Option(help="only jobs whose names begin so")] = None,
) -> None:
    """A live view of all jobs; Ctrl-C ends it."""
    connection = client()
    with suppress(KeyboardInterrupt), Live(_jobs_table(connection, prefix), console=out, auto_refresh=False) as live:
        for look in count(2):
            if looks is not None and look > looks:
                return
            time.sleep(every)
            _look_again(live, connection, prefix)


def _look_again(live: Live, connection: JobClient, prefix: str | None) -> None:
    """Shows the newest figures; while there is no answer the old ones stay, and that is said."""
    try:
        live.update(_jobs_table(connection, prefix), refresh=True)
    except RetryableError as error:
        say(f"no answer: {error.detail}", style="red")


def _jobs_table(connection: JobClient, prefix: str | None) -> Table:
    headings = ("job", "state", "converged", "revision", "tasks", "backlog", "rows/s")
    return rich_table(headings, _job_rows(connection, prefix))


def _job_rows(connection: JobClient, prefix: str | None) -> Iterator[tuple[str, ...]]:
    for job in connection.list_jobs(prefix=prefix):
        with suppress(NotFound):  # deleted since it was listed
            yield _job_row(connection, job)


def _job_row(connection: JobClient, job: JobSummary) -> tuple[str, ...]:
    tasks = [task for task in connection.tasks(job.job).tasks if task.expected]
    running = sum(task.state == "running" for task in tasks)
    figures = [figure(total(tasks, name)) for name in ("backlog_records", "processed_rows_per_second")]
    return job.job, job.state, cell(job.converged), str(job.revision), f"{running}/{len(tasks)}", *figures
