"""The base of all answers, and those of a list of jobs. `penstock.wire.jobs` has them too, with all others."""

from __future__ import annotations

from typing import TypedDict

from pydantic import BaseModel, ConfigDict

from penstock.model.states import Health, JobState


class View(BaseModel):
    """Base of answers, also made of any row with the same names. A client ignores fields that a newer service adds."""

    model_config = ConfigDict(frozen=True, extra="ignore", from_attributes=True)


class JobSummary(View):
    """A job in a list. `running_revision`, `generation` null: it never ran. Backlog, lag, rate null: not all known.

    `converged`: all tasks run the expected configuration; one that crashed has finished a batch since. `health`: how
    well it runs. `reason`: why it is not healthy, in a list its first line; empty when there is nothing to report.
    """

    job: str
    owner: str
    state: JobState
    revision: int
    running_revision: int | None
    generation: int | None
    restarts: int
    converged: bool
    backlog_records: int | None = None
    lag_seconds: float | None = None
    rows_per_second: float | None = None
    health: Health = Health.UNKNOWN
    reason: str = ""


class JobFilters(TypedDict, total=False):
    """Which jobs a list has. None does not count. `package`: `name/version`. `topic`: that the job reads
    or writes, by its full name (`orders`, or `orders@eu` of a further Kafka cluster)."""

    prefix: str | None
    owner: str | None
    state: JobState | None
    package: str | None
    topic: str | None
    health: Health | None


class JobPage(View):
    """Jobs by name; `next` is the cursor of the next page, null at the end. With the filter `health` a page may have
    fewer jobs than asked for, or none, although more follow."""

    jobs: list[JobSummary]
    next: str | None = None
