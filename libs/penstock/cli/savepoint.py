"""`penstock savepoint`: immutable copies of a job's checkpoints."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from penstock.cli.arguments import AllowRepeats, AsJson, Job, Reason, Timeout, WaitForSavepoint, WaitOrNot
from penstock.cli.connection import client, say_written
from penstock.cli.output import figure, say, show_json, table
from penstock.cli.parse import duration_seconds, name_of
from penstock.cli.patience import await_cluster
from penstock.cli.rescale import watch
from penstock.control.errors import Conflict
from penstock.wire.job_client import JobClient
from penstock.wire.savepoints import SavepointView, waits_for

_POLL_SECONDS = 0.3
Name = Annotated[str, typer.Argument(help="name of the savepoint", callback=name_of("savepoint"))]


def create(
    job: Job,
    name: Annotated[
        str | None,
        typer.Argument(help="name of the savepoint; default: the present time", callback=name_of("savepoint")),
    ] = None,
    reason: Reason = "",
    wait: WaitForSavepoint = True,
    timeout: Timeout = "10m",
) -> None:
    """Copy the checkpoints of a job while the job runs."""
    connection, seconds = client(), duration_seconds(timeout, field="timeout")
    asked = connection.create_savepoint(job, name, reason=reason)
    say(f"savepoint {asked.name} of {job} is requested")
    if not wait:
        return
    view = _await_ready(connection, asked, seconds)
    say(f"savepoint {view.name} of {job} is ready: generation {view.generation}, {figure(view.bytes)} bytes")
    for task in view.tasks or []:
        if task.taken_from is not None:
            say(f"task {task.index} is from savepoint {task.taken_from}: {task.why}")


def import_(
    job: Job,
    checkpoint: Annotated[
        str, typer.Argument(help="checkpoint of the stopped application: a Hadoop path below PENSTOCK_PATH_ROOTS")
    ],
    name: Annotated[
        str, typer.Option("--as", help="name of the savepoint that it becomes", callback=name_of("savepoint"))
    ] = "imported",
    tasks: Annotated[
        int | None, typer.Option("--tasks", min=1, help="start with this number of tasks; default: as configured")
    ] = None,
    reason: Reason = "",
    timeout: Timeout = "10m",
) -> None:
    """Start a job from the checkpoint of an ordinary Spark application: its offsets and state move in.

    First stop the application, and apply the job stopped (`desired_state: stopped`) with the same query over the same
    topics. The checkpoint is only read.
    """
    connection, seconds = client(), duration_seconds(timeout, field="timeout")
    asked = connection.create_savepoint(job, name, checkpoint=_absolute(checkpoint), reason=reason)
    say(f"the checkpoint {checkpoint} is compared with {job} and copied")
    view = _await_ready(connection, asked, seconds)
    say(f"it is savepoint {view.name} of {job}: {figure(view.bytes)} bytes")
    for task in view.tasks or []:
        say(f"the application finished batch {task.batch}")
        if task.unfinished is not None:
            say(f"it began batch {task.unfinished}, whose rows the job reads again: they may be in its output already")
    written = connection.restore(job, view.name, task_count=tasks, reason=reason)
    say_written(written)
    watch(connection, job, written.revision, seconds, give_up=_give_up(job))


def _absolute(path: str) -> str:
    """The Hadoop path of what may be a path of this machine, relative to the present folder."""
    return path if ":" in path or path.startswith("/") else str(Path(path).resolve())


def _await_ready(connection: JobClient, asked: SavepointView, seconds: float) -> SavepointView:
    """The savepoint once it is ready; says what it waits for. Raises Conflict when it has failed."""
    said: set[str] = set()

    def ended() -> SavepointView | None:
        """The savepoint, once it has ended; until then it says what it waits for, each line once."""
        view = connection.savepoint(asked.job, asked.name)
        line = waits_for(view)
        if line and line not in said:
            said.add(line)
            say(f"savepoint {view.name}: {line}")
        return view if view.state != "asked" else None

    view = await_cluster(connection, ended, seconds, "the savepoint", poll_s=_POLL_SECONDS)
    assert view is not None
    if view.state != "ready":
        raise Conflict(f"savepoint {view.name} of {view.job} is {view.state}: {view.detail}", rule="ready")
    return view


def list_(job: Job, as_json: AsJson = False) -> None:
    """List the newest savepoints of a job."""
    page = client().savepoints(job)
    found = page.savepoints
    if as_json:
        return show_json(page)
    headings = ("savepoint", "state", "generation", "bytes", "created", "author", "reason", "detail")
    rows = [(s.name, s.state, s.generation, figure(s.bytes), s.created_at, s.author, s.reason, s.detail) for s in found]
    table(headings, rows)


def show(job: Job, name: Name) -> None:
    """Show one savepoint as JSON."""
    show_json(client().savepoint(job, name))


def restore(
    job: Job,
    name: Name,
    of: Annotated[
        str | None,
        typer.Option("--of", help="the job whose savepoint it is; default: this job", callback=name_of("job")),
    ] = None,
    tasks: Annotated[
        int | None, typer.Option("--tasks", min=1, help="run with this number of tasks; default: unchanged")
    ] = None,
    package: Annotated[bool, typer.Option("--with-package", help="also set back the package and the query")] = False,
    repeats: Annotated[
        bool, typer.Option("--allow-repeats", help="though other jobs read the rows that the job writes again")
    ] = False,
    reason: Reason = "",
    wait: WaitOrNot = None,
    timeout: Timeout = "10m",
) -> None:
    """Set a job back to a savepoint, or start it from a savepoint of another job.

    Rows that the job wrote after the savepoint stay in its output, and it writes them again.
    """
    connection, seconds = client(), duration_seconds(timeout, field="timeout")
    written = connection.restore(
        job, name, of=of, task_count=tasks, with_package=package, allow_repeats=repeats, reason=reason
    )
    say_written(written)
    if wait is False:
        return
    watch(connection, job, written.revision, seconds, give_up=_give_up(job), batches=bool(wait))
    say(f"{job} reads again what came after the savepoint: until it has caught up, it lags. `penstock why {job}`")


def _give_up(job: str) -> str:
    return f"`penstock savepoint cancel-restore {job}`"


def cancel_restore(job: Job, reason: Reason = "", allow_repeats: AllowRepeats = False) -> None:
    """Cancel a restore that is not committed yet: the job continues from its own checkpoints.

    What the restore wrote to a layer (`--tasks`, `--with-package`) stays: `penstock history`, `penstock revert`. A job
    that never ran starts without state: it may write rows again that other jobs read (`--allow-repeats`).
    """
    say_written(client().cancel_restore(job, allow_repeats=allow_repeats, reason=reason))


def delete(job: Job, name: Name) -> None:
    """Delete a savepoint and its files."""
    client().delete_savepoint(job, name)
    say(f"savepoint {name} of {job} is being deleted")
