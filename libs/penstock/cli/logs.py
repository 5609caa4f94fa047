"""`penstock logs`: the log of the Spark host that runs a task, or ran it last."""

from __future__ import annotations

import re
import time
from contextlib import suppress
from typing import Annotated

import typer

from penstock.cli.arguments import Job
from penstock.cli.connection import client
from penstock.cli.output import note
from penstock.control.errors import Conflict, PenstockError, RetryableError, UserError
from penstock.model.reports import TaskState
from penstock.wire.job_client import JobClient
from penstock.wire.overview import TaskView
from penstock.wire.task_logs import LARGEST_PART_BYTES, SMALLEST_PART_BYTES, TaskLog

_POLL_SECONDS = 1.0
# What a job prints shall not move the cursor of a terminal, or worse.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def logs(
    job: Job,
    task: Annotated[
        str | None, typer.Argument(help="its index, or JOB/INDEX; default: the first that does not run, else 0")
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="print new lines as they come; Ctrl-C ends it")
    ] = False,
    size: Annotated[
        int,
        typer.Option("--bytes", min=SMALLEST_PART_BYTES, max=LARGEST_PART_BYTES, help="how much of the newest lines"),
    ] = 64 * 1024,
) -> None:
    """Show the log of the Spark host that runs a task, or ran it last; -f follows it.

    Other tasks of the host write to the same log, so the token needs the role `oncall` or `admin`. Values of secrets
    are shown as `***`.
    """
    connection = client()
    index = _first_unwell(connection.tasks(job).tasks) if task is None else index_of(job, task)
    part = connection.task_log(job, index, limit_bytes=size)
    _show(part, None)
    with suppress(KeyboardInterrupt):
        while follow:
            part = _next(connection, job, index, part)


def index_of(job: str, task: str) -> int:
    """The index in `3` or `job/3`. Raises UserError."""
    text = task.removeprefix(f"{job}/")
    if not (text.isascii() and text.isdecimal() and len(text) < 5):
        raise UserError(f"{task} is no task of {job}: write its index, such as 0", field="task", rule="index")
    return int(text)


def _first_unwell(tasks: list[TaskView]) -> int:
    expected = [task for task in tasks if task.expected]
    unwell = [task.index for task in expected if task.state != TaskState.RUNNING and task.container is not None]
    return min(unwell, default=0)


def _next(connection: JobClient, job: str, index: int, before: TaskLog) -> TaskLog:
    """The next part, after a while if all was shown. What cannot be asked now is asked again."""
    if before.end >= before.size_bytes or before.begin == before.end:
        time.sleep(_POLL_SECONDS)
    try:
        part = connection.task_log(job, index, host=before.host, offset=before.end)
    except (RetryableError, Conflict) as error:
        note(f"no answer: {_words(error)}")
        time.sleep(_POLL_SECONDS)
        return before
    _show(part, before)
    return part


def _words(error: PenstockError) -> str:
    return " ".join(error.detail.split())


def _show(part: TaskLog, before: TaskLog | None) -> None:
    """The lines; where they come from goes to the error stream, whenever that changes."""
    if before is None or before.host != part.host or before.container != part.container:
        others = f", which runs {part.tasks} tasks" if part.tasks > 1 else ""
        note(f"{part.task}: host {part.host} of {part.container}{others}; {part.size_bytes:,} bytes")
    print(_CONTROL.sub("?", part.text), end="", flush=True)
