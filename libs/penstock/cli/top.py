"""`penstock top`: a live table of all jobs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from typing import Annotated

import typer
from rich.live import Live
from rich.table import Table

from penstock.cli.connection import client
from penstock.cli.jobs import backlog_and_lag
from penstock.cli.output import cell, out, rich_table, say
from penstock.control.errors import NotFound, RetryableError
from penstock.wire.job_client import JobClient
from penstock.wire.jobs import JobSummary


def top(
    every: Annotated[float, typer.Option(min=0.1, help="seconds between two updates")] = 2.0,
    updates: Annotated[int | None, typer.Option(min=1, help="end after this many updates; default: never")] = None,
    prefix: Annotated[str | None, typer.Option(help="only jobs whose names begin with this")] = None,
) -> None:
    """Show a live table of all jobs. Ctrl-C ends it."""
    connection = client()
    with suppress(KeyboardInterrupt), Live(_jobs_table(connection, prefix), console=out, auto_refresh=False) as live:
        for number in count(2):
            if updates is not None and number > updates:
                return
            time.sleep(every)
            _update(live, connection, prefix)


def _update(live: Live, connection: JobClient, prefix: str | None) -> None:
    """Shows the newest figures. While the service does not answer, the old figures stay and a line says so."""
    try:
        live.update(_jobs_table(connection, prefix), refresh=True)
    except RetryableError as error:
        say(f"no answer: {error.detail}", style="red")


def _jobs_table(connection: JobClient, prefix: str | None) -> Table:
    headings = ("job", "health", "state", "revision", "tasks", "backlog", "lag s", "rows/s")
    return rich_table(headings, _job_rows(connection, prefix))


def _job_rows(connection: JobClient, prefix: str | None) -> Iterator[tuple[str, ...]]:
    for job in connection.list_jobs(prefix=prefix):
        with suppress(NotFound):  # deleted since it was listed
            yield _job_row(connection, job)


def _job_row(connection: JobClient, job: JobSummary) -> tuple[str, ...]:
    tasks = [task for task in connection.tasks(job.job).tasks if task.expected]
    running = sum(task.state == "running" for task in tasks)
    figures = (*backlog_and_lag(job), cell(job.rows_per_second))
    return job.job, job.health, job.state, str(job.revision), f"{running}/{len(tasks)}", *figures
