"""Commands about the cluster: containers, shards, alerts, the field table, and a live view."""

from __future__ import annotations

import time
from typing import Annotated

import typer
from rich.live import Live
from rich.table import Table

from penstock.cli.jobs import AsJson, Job, client
from penstock.cli.output import cell, out, show_json, table
from penstock.control.errors import RetryableError
from penstock.wire.job_client import JobClient
from penstock.wire.overview import total

_GIB = 2**30


def add_to(app: typer.Typer) -> None:
    """Adds the commands to the program."""
    for command in (containers, shards, alerts, fields, decisions, top):
        app.command()(command)


def containers(as_json: AsJson = False) -> None:
    """Containers: state, capacity, shards and tasks."""
    page = client().containers()
    if as_json:
        return show_json(page)
    headings = ("container", "state", "region", "cores", "memory GiB", "shards", "tasks", "heartbeat", "url")
    rows = [
        (c.name, c.state, c.region, c.cpu_cores, c.memory_bytes / _GIB, c.shards, c.tasks, c.heartbeat_at, c.url)
        for c in page.containers
    ]
    return table(headings, rows)


def shards(as_json: AsJson = False) -> None:
    """How many shards each container owns; every shard with --json."""
    page = client().shards()
    if as_json:
        return show_json(page)
    counts: dict[str | None, int] = {}
    for shard in page.shards:
        counts[shard.container] = counts.get(shard.container, 0) + 1
    return table(("container", "shards"), sorted(counts.items(), key=str))


def alerts(as_json: AsJson = False) -> None:
    """Open alerts, newest first."""
    page = client().alerts()
    if as_json:
        return show_json(page)
    rows = [(a.kind, a.subject, a.message, a.times, a.raised_at) for a in page.alerts]
    return table(("kind", "subject", "message", "times", "raised"), rows)


def fields(as_json: AsJson = False) -> None:
    """The field table: what a job can be told, who may set it, and what a change costs."""
    answer = client().fields()
    if as_json:
        return show_json(*answer)
    rows = [(f.path, f.type, f.unit, f.default, f.change, f.layers, f.documentation) for f in answer]
    return table(("field", "type", "unit", "default", "change kind", "layers", "documentation"), rows)


def decisions(job: Job, as_json: AsJson = False) -> None:
    """The Auto Scaler's decisions about a job, newest first."""
    page = client().decisions(job)
    if as_json:
        return show_json(page)
    rows = [(d.at, d.symptom, d.action, d.change, d.outcome) for d in page.decisions]
    return table(("when", "symptom", "action", "change", "outcome"), rows)


def top(every: Annotated[float, typer.Option(help="seconds between looks")] = 2.0) -> None:
    """A live view of all jobs; Ctrl-C ends it."""
    connection = client()
    with Live(_jobs_table(connection), console=out, auto_refresh=False) as live:
        while True:
            time.sleep(every)
            try:
                live.update(_jobs_table(connection), refresh=True)
            except RetryableError as error:
                live.console.print(f"no answer: {error.detail}")


def _jobs_table(connection: JobClient) -> Table:
    shown = Table("job", "state", "converged", "revision", "tasks", "backlog", "rows/s")
    for job in connection.list_jobs():
        tasks = [task for task in connection.tasks(job.job).tasks if task.expected]
        running = sum(task.state == "running" for task in tasks)
        figures = [total(tasks, name) for name in ("backlog_records", "processed_rows_per_second")]
        row = (job.job, job.state, job.converged, job.revision, f"{running}/{len(tasks)}", *figures)
        shown.add_row(*(cell(value) for value in row))
    return shown
