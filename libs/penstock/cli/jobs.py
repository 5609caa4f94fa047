"""Commands about whole jobs: definition, state, tasks."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from penstock.cli.arguments import AsJson, Config, Job, Reason, Verify
from penstock.cli.connection import client, definition, say_written
from penstock.cli.output import figure, show_json, table
from penstock.model.jobs import JobState


def list_(
    prefix: Annotated[str | None, typer.Option(help="only jobs whose names begin with this")] = None,
    owner: Annotated[str | None, typer.Option(help="only jobs of this owner")] = None,
    state: Annotated[JobState | None, typer.Option(help="only jobs in this state")] = None,
    as_json: AsJson = False,
) -> None:
    """List all jobs by name."""
    found = list(client().list_jobs(prefix=prefix, owner=owner, state=state))
    if as_json:
        return show_json(*found)
    headings = ("job", "state", "converged", "revision", "running", "generation", "owner")
    rows = [(j.job, j.state, j.converged, j.revision, j.running_revision, j.generation, j.owner) for j in found]
    return table(headings, rows)


def show(job: Job) -> None:
    """Show one job as JSON: merged configuration, layer versions, state."""
    show_json(client().get_job(job))


def apply(job: Job, config: Config, reason: Reason = "", verify: Verify = True) -> None:
    """Create a job, or replace its base layer.

    In a file, `${data_dir}` is replaced by the data folder of `penstock up`, and `${job}` by the job's name.
    """
    say_written(client().put_job(job, definition(job, config), reason=reason, verify=verify))


def delete(job: Job, reason: Reason = "") -> None:
    """Stop the tasks of a job, then delete the job. Its history is kept."""
    say_written(client().delete_job(job, reason=reason))


def restart(job: Job, reason: Reason = "") -> None:
    """Restart the tasks of a job. Their state is kept."""
    say_written(client().restart(job, reason=reason))


def release(job: Job, reason: Reason = "") -> None:
    """Release a job from quarantine: the State Syncer tries its change again."""
    say_written(client().release(job, reason=reason))


def tasks(job: Job, as_json: AsJson = False) -> None:
    """List the tasks of a job: state, container, backlog, last error."""
    answer = client().tasks(job)
    if as_json:
        return show_json(answer)
    rows = [
        (t.task, t.state, t.container, t.revision, t.generation, t.crashes, *_figures(t.progress or {}), t.error)
        for t in answer.tasks
    ]
    headings = ("task", "state", "container", "revision", "generation", "crashes", "backlog", "rows/s", "error")
    return table(headings, rows)


def _figures(progress: dict[str, Any]) -> tuple[str, str]:
    return figure(progress.get("backlog_records")), figure(progress.get("processed_rows_per_second"))


def sync(job: Job) -> None:
    """Show how far a job is from its expected configuration, and what blocks it, as JSON."""
    show_json(client().sync(job))
