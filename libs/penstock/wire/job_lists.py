"""The list of jobs: a client of its own, which is quick to import. `JobClient` has the calls, too."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypedDict, Unpack

from penstock.model.states import Health, JobState
from penstock.wire.job_views import JobPage, JobSummary
from penstock.wire.service_client import ServiceClient


class JobFilters(TypedDict, total=False):
    """Which jobs a list has. None does not count. `package`: `name/version`. `topic`: that the job reads
    or writes, by its full name (`orders`, or `orders@eu` of a further Kafka cluster)."""

    prefix: str | None
    owner: str | None
    state: JobState | None
    package: str | None
    topic: str | None
    health: Health | None


class JobLists(ServiceClient):
    """Reads lists of jobs from the Job Service. Raises the errors of `penstock.control.errors`."""

    def list_jobs(self, *, page_size: int = 500, **filters: Unpack[JobFilters]) -> Iterator[JobSummary]:
        """All jobs by name that match the filters, read page by page."""
        for page in self._pages(JobPage, "/v1/jobs", limit=page_size, **filters):
            yield from page.jobs

    def jobs_page(self, *, cursor: str | None = None, limit: int = 100, **filters: Unpack[JobFilters]) -> JobPage:
        """A page of jobs by name that match the filters."""
        return self._read(JobPage, "/v1/jobs", cursor=cursor, limit=limit, **filters)
