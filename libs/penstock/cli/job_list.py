"""`penstock jobs list`, apart from the other commands about jobs: it is quick to import."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from penstock.cli.arguments import AsJson
from penstock.cli.output import figure, measured, say, show_json, table
from penstock.cli.reach import Explaining, connected
from penstock.model.states import Health, JobState
from penstock.wire.job_lists import JobLists
from penstock.wire.job_views import JobPage, JobSummary


class _Lists(Explaining, JobLists):
    """A client that says what to look at when nobody answers."""


def list_(
    prefix: Annotated[str | None, typer.Option(help="only jobs whose names begin with this")] = None,
    owner: Annotated[str | None, typer.Option(help="only jobs of this owner")] = None,
    state: Annotated[JobState | None, typer.Option(help="only jobs in this state")] = None,
    health: Annotated[Health | None, typer.Option(help="only jobs of this health")] = None,
    as_json: AsJson = False,
) -> None:
    """List all jobs by name, and below the table the reason for each job that has one."""
    found = list(connected(_Lists).list_jobs(prefix=prefix, owner=owner, state=state, health=health))
    if as_json:
        return show_json(JobPage(jobs=found))
    headings = ("job", "health", "state", "converged", "revision", "running revision", "backlog", "lag s", "owner")
    table(headings, [_row(job) for job in found])
    for job in found:
        if job.reason:
            say(f"{job.job}: {job.reason}")
    return None


def _row(job: JobSummary) -> tuple[Any, ...]:
    revisions = (job.revision, job.running_revision)
    return job.job, job.health, job.state, job.converged, *revisions, *backlog_and_lag(job), job.owner


def backlog_and_lag(job: JobSummary) -> tuple[str, str]:
    """Two cells: unread records, and the seconds of work that they are."""
    return figure(job.backlog_records), measured(job.lag_seconds)
