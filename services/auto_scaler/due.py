"""When a healthy job is due: past days are read for a few jobs in each round, never for all at once."""

from __future__ import annotations

import zlib
from datetime import datetime


class DueJobs:
    """Every job is due once in so many minutes, at a time of its own. A job that is new here waits for the first."""

    def __init__(self, every_minutes: int) -> None:
        self._seconds = 60 * every_minutes
        self._newest: dict[str, int] = {}

    def take(self, job: str, now: datetime) -> bool:
        """Whether the job is due. If so, it is not due again before its next time."""
        if not self._seconds:
            return True
        span = (int(now.timestamp()) + zlib.crc32(job.encode()) % self._seconds) // self._seconds
        before = self._newest.get(job, span)
        self._newest[job] = span
        return span != before

    def keep_only(self, jobs: set[str]) -> None:
        """Forgets all other jobs."""
        self._newest = {job: span for job, span in self._newest.items() if job in jobs}
