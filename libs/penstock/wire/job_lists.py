"""The list of jobs: a client of its own, which is quick to import. `JobClient` has the call, too."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.model.states import Health, JobState
from penstock.wire.job_views import JobPage, JobSummary
from penstock.wire.service_client import ServiceClient


class JobLists(ServiceClient):
    """Reads lists of jobs from the Job Service. Raises the errors of `penstock.control.errors`."""

    def list_jobs(
        self,
        *,
        prefix: str | None = None,
        owner: str | None = None,
        state: JobState | None = None,
        package: str | None = None,
        topic: str | None = None,
        health: Health | None = None,
        page_size: int = 500,
    ) -> Iterator[JobSummary]:
        """All jobs by name that match the filters, read page by page. `package`: `name/version`.

        `topic`: that the job reads or writes.
        """
        named = {"prefix": prefix, "owner": owner, "state": state, "health": health, "package": package, "topic": topic}
        filters = named | {"limit": page_size}
        for page in self._pages(JobPage, "/v1/jobs", **filters):
            yield from page.jobs
