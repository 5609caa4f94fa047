"""`penstock rollout`: a package that goes out to the tasks of a job in waves."""

from __future__ import annotations

from typing import Annotated

import typer

from penstock.cli.arguments import Job, Timeout, WaitUntilDone
from penstock.cli.connection import client, say_written
from penstock.cli.output import show_json
from penstock.cli.parse import duration_seconds
from penstock.cli.waiting import say_and_wait

Why = Annotated[str, typer.Option("--reason", "-r", help="why; kept in the history")]


def show(job: Job) -> None:
    """Show how far a package has gone out, as JSON."""
    show_json(client().rollout(job))


def pause(job: Job, reason: Why) -> None:
    """Begin no further wave of a rollout. Upgraded tasks keep the package.

    Tasks that crash again and again still end the rollout: all tasks go back to the package before.
    """
    say_written(client().pause_rollout(job, reason=reason))


def resume(job: Job, reason: Why, wait: WaitUntilDone = False, timeout: Timeout = "1h") -> None:
    """Continue a rollout that was paused."""
    connection, seconds = client(), duration_seconds(timeout, field="timeout")
    say_and_wait(connection, connection.resume_rollout(job, reason=reason), seconds if wait else None)


def abort(job: Job, reason: Why, wait: WaitUntilDone = False, timeout: Timeout = "10m") -> None:
    """Give a rollout up: all tasks go back to the package before, by the layer `rollback`.

    Drop that layer (`penstock layers drop JOB rollback`) to try the same package again.
    """
    connection, seconds = client(), duration_seconds(timeout, field="timeout")
    say_and_wait(connection, connection.abort_rollout(job, reason=reason), seconds if wait else None)
