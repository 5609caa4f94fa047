"""`penstock savepoint`: immutable copies of a job's checkpoints."""

from __future__ import annotations

from typing import Annotated

import typer

from penstock.cli.jobs import AsJson, Job, Reason, client, say_written
from penstock.cli.output import figure, say, show_json, table
from penstock.cli.parse import duration_seconds
from penstock.cli.rescale import watch
from penstock.control.errors import Conflict
from penstock.control.process import wait_until

_POLL_SECONDS = 0.3
Name = Annotated[str, typer.Argument(help="the savepoint's name")]
savepoint = typer.Typer(no_args_is_help=True, help="take, list, restore and delete savepoints of a job")


def add_to(app: typer.Typer) -> None:
    """Adds the commands to the program."""
    app.add_typer(savepoint, name="savepoint")


@savepoint.command("create")
def create(
    job: Job,
    name: Annotated[str | None, typer.Argument(help="the savepoint's name; the time if absent")] = None,
    reason: Reason = "",
    wait: Annotated[str, typer.Option("--wait", help="how long to wait for the end")] = "10m",
    no_wait: Annotated[bool, typer.Option("--no-wait", help="return at once")] = False,
) -> None:
    """Copy the checkpoints of a job, which runs on meanwhile."""
    connection, seconds = client(), duration_seconds(wait)
    asked = connection.create_savepoint(job, name, reason=reason)
    say(f"savepoint {asked.name} of {job} is asked for")
    if no_wait:
        return
    wait_until(
        lambda: connection.savepoint(job, asked.name).state != "asked", seconds, "the savepoint", poll_s=_POLL_SECONDS
    )
    view = connection.savepoint(job, asked.name)
    if view.state != "ready":
        raise Conflict(f"savepoint {view.name} of {job} is {view.state}: {view.detail}", rule="ready")
    say(f"savepoint {view.name} of {job} is ready: generation {view.generation}, {figure(view.bytes)} bytes")
    for task in view.tasks or []:
        if task.taken_from is not None:
            say(f"task {task.index} is from savepoint {task.taken_from}: {task.why}")


@savepoint.command("list")
def list_(job: Job, as_json: AsJson = False) -> None:
    """The newest savepoints of a job."""
    found = client().savepoints(job).savepoints
    if as_json:
        return show_json(*found)
    headings = ("savepoint", "state", "generation", "bytes", "created", "author", "reason", "detail")
    rows = [(s.name, s.state, s.generation, figure(s.bytes), s.created_at, s.author, s.reason, s.detail) for s in found]
    table(headings, rows)


@savepoint.command("show")
def show(job: Job, name: Name) -> None:
    """All that is known of a savepoint, as JSON."""
    show_json(client().savepoint(job, name))


@savepoint.command("restore")
def restore(
    job: Job,
    name: Name,
    of: Annotated[str | None, typer.Option("--of", help="the savepoint's job; this one if absent")] = None,
    tasks: Annotated[int | None, typer.Option("--tasks", min=1, help="another number of tasks")] = None,
    package: Annotated[bool, typer.Option("--with-package", help="and to the package and query of then")] = False,
    reason: Reason = "",
    wait: Annotated[str, typer.Option("--wait", help="how long to wait for the end")] = "10m",
    no_wait: Annotated[bool, typer.Option("--no-wait", help="return at once; `penstock sync` shows the plan")] = False,
) -> None:
    """Roll a job back to a savepoint, or start it from another job's. What it wrote since is not undone."""
    connection, seconds = client(), duration_seconds(wait)
    written = connection.restore(job, name, of=of, task_count=tasks, with_package=package, reason=reason)
    say_written(written)
    if not no_wait:
        watch(connection, job, written.revision, seconds)


@savepoint.command("delete")
def delete(job: Job, name: Name) -> None:
    """Delete a savepoint's files, then the savepoint."""
    client().delete_savepoint(job, name)
    say(f"savepoint {name} of {job} is being deleted")
