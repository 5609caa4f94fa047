"""`penstock jobs list`, apart from the other commands about jobs: it is quick to import."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Any

import typer

from penstock.cli.arguments import AsJson
from penstock.cli.output import figure, measured, say, show_json, table
from penstock.cli.reach import Explaining, connected
from penstock.control.texts import first_few
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
    for line in reasons(found):
        say(line)
    return None


def reasons(jobs: Sequence[JobSummary]) -> Iterator[str]:
    """A line for each job that has a reason; of those that are stopped, one for all. Pure."""
    yield from (f"{job.job}: {job.reason}" for job in jobs if job.reason)
    stopped = [job.job for job in jobs if job.health is Health.STOPPED and not job.reason]
    if stopped:
        told = f"{first_few(stopped)} {'is' if len(stopped) == 1 else 'are'} stopped"
        yield f"{told}: `penstock why JOB` says for each by which layer, by whom and why"


def _row(job: JobSummary) -> tuple[Any, ...]:
    revisions = (job.revision, job.running_revision)
    return job.job, job.health, job.state, job.converged, *revisions, *backlog_and_lag(job), job.owner


def backlog_and_lag(job: JobSummary) -> tuple[str, str]:
    """Two cells: unread records, and the seconds of work that they are."""
    return figure(job.backlog_records), measured(job.lag_seconds)
