"""Names of jobs for the shell's completion."""

from __future__ import annotations

from itertools import islice

from penstock.cli.reach import connected
from penstock.control.errors import PenstockError
from penstock.wire.job_lists import JobLists

_MOST = 50


def names(incomplete: str) -> list[str]:
    """At most 50 names of jobs that begin so; none while the Job Service cannot be asked at once."""
    try:
        with connected(JobLists) as lists:
            found = lists.list_jobs(prefix=incomplete or None, page_size=_MOST)
            return [job.job for job in islice(found, _MOST)]
    except PenstockError:
        return []
