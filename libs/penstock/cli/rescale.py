"""`penstock rescale`: another number of tasks, with the plan's progress until the job runs with it."""

from __future__ import annotations

from typing import Annotated

import typer

from penstock.cli.arguments import ForTime, Job, NoWait, Reason, Wait
from penstock.cli.connection import client, say_written
from penstock.cli.output import say
from penstock.cli.parse import duration_seconds, expiry_seconds
from penstock.control.errors import Conflict
from penstock.control.process import wait_until
from penstock.model.jobs import JobState
from penstock.wire.job_client import JobClient
from penstock.wire.overview import SyncView

_POLL_SECONDS = 0.3
_GIVEN_UP = (JobState.FAILED, JobState.QUARANTINED)


def rescale(
    job: Job,
    tasks: Annotated[int, typer.Argument(min=1, help="the new number of tasks")],
    reason: Reason = "",
    for_: ForTime = None,
    wait: Wait = "10m",
    no_wait: NoWait = False,
) -> None:
    """Change the number of tasks of a job. No row is lost or counted twice.

    The tasks stop, their offsets and state are redistributed, and the new tasks start.
    """
    connection, seconds = client(), duration_seconds(wait)
    written = connection.rescale(job, tasks, reason=reason, expires_in_seconds=expiry_seconds(for_))
    say_written(written)
    if not no_wait:
        watch(connection, job, written.revision, seconds)


def watch(connection: JobClient, job: str, revision: int, seconds: float) -> None:
    """Says each step of the plan once, until the job runs the write. Raises Conflict when the plan failed."""
    said: set[str] = set()

    def has_ended() -> bool:
        view = connection.sync(job)
        if view.detail and view.detail not in said and (view.sync_revision or 0) >= revision:
            said.add(view.detail)
            say(f"{view.state}: {view.detail}")
        return _has_ended(view, revision)

    wait_until(has_ended, seconds, f"{job} to run revision {revision}: see `penstock sync`", poll_s=_POLL_SECONDS)
    view = connection.sync(job)
    if view.state in _GIVEN_UP:
        raise Conflict(f"{job} is {view.state} and runs as before: {view.detail}", rule="rescaled")
    say(f"{job} runs revision {view.running_revision} as generation {view.generation}")


def _has_ended(view: SyncView, revision: int) -> bool:
    runs = view.running_revision is not None and view.running_revision >= revision
    given_up = view.state in _GIVEN_UP and (view.sync_revision or 0) >= revision
    return given_up or (runs and view.plan is None)
