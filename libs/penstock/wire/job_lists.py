"""The list of jobs: a client of its own, which is quick to import. `JobClient` has the calls, too."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Unpack

from penstock.wire.job_views import JobFilters, JobPage, JobSummary
from penstock.wire.service_client import ServiceClient


class JobLists(ServiceClient):
    """Reads lists of jobs from the Job Service. Raises the errors of `penstock.control.errors`."""

    def list_jobs(self, *, page_size: int = 500, **filters: Unpack[JobFilters]) -> Iterator[JobSummary]:
        """All jobs by name that match the filters, read page by page."""
        for page in self._pages(JobPage, "/v1/jobs", limit=page_size, **filters):
            yield from page.jobs

    def jobs_page(self, *, cursor: str | None = None, limit: int = 100, **filters: Unpack[JobFilters]) -> JobPage:
        """A page of jobs by name that match the filters."""
        return self._read(JobPage, "/v1/jobs", cursor=cursor, limit=limit, **filters)
