"""`penstock rollout`: a package that goes out to the tasks of a job in waves."""

from __future__ import annotations

from typing import Annotated

import typer

from penstock.cli.arguments import Job
from penstock.cli.connection import client, say_written
from penstock.cli.output import show_json

Why = Annotated[str, typer.Option("--reason", "-r", help="why; kept in the history")]


def show(job: Job) -> None:
    """Show how far a package has gone out, as JSON."""
    show_json(client().rollout(job))


def pause(job: Job, reason: Why) -> None:
    """Begin no further wave of a rollout. Upgraded tasks keep the package.

    Tasks that crash again and again still end the rollout: all tasks go back to the package before.
    """
    say_written(client().pause_rollout(job, reason=reason))


def resume(job: Job, reason: Why) -> None:
    """Continue a rollout that was paused."""
    say_written(client().resume_rollout(job, reason=reason))


def abort(job: Job, reason: Why) -> None:
    """Give a rollout up: all tasks go back to the package before, by the layer `rollback`.

    Drop that layer (`penstock layers drop JOB rollback`) to try the same package again.
    """
    say_written(client().abort_rollout(job, reason=reason))
