"""Requests to the Job Service, and its answers. `penstock.wire.job_client` is the client."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from penstock.config.declare import Model, Name
from penstock.wire.job_views import JobPage as JobPage
from penstock.wire.job_views import JobSummary as JobSummary
from penstock.wire.job_views import View as View

LONGEST_EXPIRY_SECONDS = 366 * 86_400
LARGEST_BATCH = 1000

JsonObject = dict[str, Any]
Reason = Annotated[str, Field(max_length=2000, description="why; kept in the history")]
Expiry = Annotated[
    int | None,
    Field(
        ge=1,
        le=LONGEST_EXPIRY_SECONDS,
        description="seconds until the layer is dropped; null: never; absent: the layer's default",
    ),
]
StayingExpiry = Annotated[
    int | None,
    Field(ge=1, le=LONGEST_EXPIRY_SECONDS, description="seconds until the layer is dropped; null or absent: never"),
]


class Problem(BaseModel):
    """An RFC 9457 problem. `field` and `rule` are there when a field is at fault."""

    type: str
    title: str
    status: int
    detail: str
    field: str | None = None
    rule: str | None = None
    current_version: int | None = None
    errors: list[JsonObject] | None = None


class WithReason(Model):
    """`POST .../restart`, `.../release` and the like."""

    reason: Reason = ""


class Expiring(WithReason):
    """Base of writes to a layer."""

    expires_in_seconds: Expiry = None
    whole_layer: bool = Field(
        False,
        description="of a patch with an expiry: it is also that of fields of the layer which the patch does not name; "
        "without this a patch that would end them earlier, or let them stay for ever, is refused",
    )


class JobWrite(WithReason):
    """`PUT /v1/jobs/{job}`: the base layer."""

    config: JsonObject


class LayerWrite(Expiring):
    """`PUT` (the layer's new content) or `PATCH` (a merge patch of it) of a layer."""

    config: JsonObject


class RevertWrite(Expiring):
    """Gives a layer its content of `version` again, and its end. Version 0, or a version that dropped the layer, drops
    it. Without `expires_in_seconds` an end that has passed becomes one as far from now as it was then."""

    version: int = Field(ge=0, le=2**62)


class RescaleWrite(Expiring):
    """`POST .../rescale`: another number of tasks, as a write to the highest layer that the caller may write.

    Without `expires_in_seconds` the write never expires. With `balance` the tasks' ranges follow the measured traffic.
    `within_seconds` also sets `rescale_within_seconds`.
    """

    task_count: int = Field(ge=1, le=10_000)
    balance: bool = False
    within_seconds: float | None = Field(None, gt=0, le=86_400)
    expires_in_seconds: StayingExpiry = None


class PlanRequest(LayerWrite):
    """A layer write whose effect is asked for; nothing is written. `action` as in a batch.

    Without `layer` it is `oncall` or the token's highest layer, and `base` for a job that does not exist.
    `verify` false: Spark is not asked. `allow_repeats`: as of a write.
    """

    layer: Name | None = None
    verify: bool = True
    allow_repeats: bool = False
    action: Literal["put", "patch", "drop"] = "patch"
    config: JsonObject = Field(default_factory=dict)


class BatchAction(StrEnum):
    """What a write of a batch does: the calls of the same names."""

    PUT_JOB = "put_job"
    DELETE_JOB = "delete_job"
    PUT = "put"
    PATCH = "patch"
    DROP = "drop"
    REVERT = "revert"
    RESTART = "restart"
    RELEASE = "release"
    RESCALE = "rescale"


class BatchWrite(Expiring):
    """One write of a batch. `put`, `patch`, `drop` and `revert` need `layer` and `if_match`; `revert` also `version`.

    For `put_job`, `if_match` is the base layer's version; 0: create only; absent: create or replace. For actions on the
    job it may be given, and is that version, too. `rescale` needs `task_count`, and takes what its call takes.
    `allow_repeats`: as of the single calls.
    """

    action: BatchAction
    job: str = Field(max_length=200)
    layer: Name | None = None
    config: JsonObject = Field(default_factory=dict)
    if_match: int | None = Field(None, ge=0, le=2**62)
    version: int | None = Field(None, ge=0, le=2**62)
    task_count: int | None = Field(None, ge=1, le=10_000)
    balance: bool = False
    within_seconds: float | None = Field(None, gt=0, le=86_400)
    allow_repeats: bool = False


class Batch(Model):
    """`POST /v1/batches`: many writes, each with its own result; one transaction."""

    writes: list[BatchWrite] = Field(min_length=1, max_length=LARGEST_BATCH)


class Written(View):
    """A write that was done. `layer` and `version` are null for writes to the job as a whole.

    `verified`: whether Spark's analysis found nothing against it; false when nobody could be asked, null when there was
    nothing to verify. `why` it is false. What was not verified is checked before a job that runs gets it; the tasks of
    one that has not run check it when they start. `notes`: as in its plan.
    """

    job: str
    action: str
    revision: int
    layer: str | None = None
    version: int | None = None
    expires_at: datetime | None = None
    verified: bool | None = None
    why: str = ""
    notes: list[str] = Field(default_factory=list)


class BatchResult(View):
    """The result of one write of a batch: `written`, or `problem` with its `status`."""

    status: int
    written: Written | None = None
    problem: Problem | None = None


class BatchResults(View):
    """In the order of the writes."""

    results: list[BatchResult]


class LayerVersion(View):
    """A layer of a job without its content. Version 0: never written."""

    layer: str
    version: int
    revision: int | None = None
    author: str | None = None
    reason: str | None = None
    written_at: datetime | None = None
    expires_at: datetime | None = None


class LayerView(LayerVersion):
    """A layer of a job; `config` null: absent or dropped."""

    job: str
    config: JsonObject | None = None


class JobView(JobSummary):
    """A job: `config` is its merged configuration with all defaults. `detail`: what the State Syncer does with it."""

    created_at: datetime
    detail: str = ""
    config: JsonObject
    layers: list[LayerVersion]


class HiddenValueView(View):
    """A value that would count if the layers above it did not set the leaf."""

    layer: str
    version: int | None
    field: str
    value: Any


class ExplainedLeafView(View):
    """A leaf of the merged configuration. Layer `default`: no layer sets it. `ignored`: why it has no effect."""

    field: str
    path: list[str]
    value: Any
    layer: str
    change: str | None
    version: int | None
    revision: int | None
    author: str | None
    reason: str | None
    written_at: datetime | None
    expires_at: datetime | None
    hides: list[HiddenValueView]
    ignored: str | None = None


class Explanation(View):
    """Every leaf of a job, sorted by path."""

    job: str
    revision: int
    leaves: list[ExplainedLeafView]


class FieldChangeView(View):
    """A leaf that would change; `kind` is its change kind."""

    field: str
    old: Any
    new: Any
    kind: str


class AnalysisView(View):
    """What Spark finds in the job as it would be, asked of a container's host.

    `verified`: every check was made and found nothing. `why`: what could not be checked. `made`: some host has looked
    at the job. `late`: none has within the time that the Job Service waits; it may be starting, so ask again.

    `columns`: the types of the query's result. `operators`: what brings rows together, by which columns, and whether
    such rows are sure to be in one task.
    """

    verified: bool
    why: str = ""
    made: bool = True
    late: bool = False
    problems: list[JsonObject] = Field(default_factory=list)
    columns: dict[str, str] | None = None
    operators: list[JsonObject] = Field(default_factory=list)


class PlanView(View):
    """What a write would do. Null is unknown, never zero.

    `fields` are the leaves that the write changes. `kind` and `steps` describe the way from the running configuration
    to the expected one, so changes that do not run yet count too. `allowed` false: the write would be refused.
    `is_new`: the job has never run, so no change is refused for its kind.
    `analysis`: what Spark finds; null when the write changes nothing that Spark analyses.
    `waves`: the tasks that get a new package in each of the steps `wave_1`, `wave_2` and so on; empty without one.
    `completeness` of a rescale of a job with watermarks: tasks that lag read on first (`wait`), or late rows are
    dropped (`drop_late`). `downtime_seconds` of a rescale is the duration of the job's last rescale, up to the commit.
    `catch_up_seconds` follows from the rates of the last 10 minutes. `notes`: what the write brings about and is not
    refused for, such as rows that may come twice.
    """

    job: str
    layer: str
    version: int
    kind: str
    allowed: bool
    is_new: bool = False
    fields: list[FieldChangeView]
    steps: list[str]
    waves: list[list[str]]
    completeness: str | None
    tasks_touched: list[str]
    downtime_seconds: float | None
    catch_up_seconds: float | None
    config: JsonObject
    notes: list[str] = Field(default_factory=list)
    analysis: AnalysisView | None = None


class HistoryEntry(View):
    """One write; `old` and `new` are the layer's content before and after."""

    id: int
    job: str
    layer: str | None
    version: int | None
    revision: int
    action: str
    author: str
    reason: str
    at: datetime
    old: JsonObject | None
    new: JsonObject | None
    expires_at: datetime | None


class HistoryPage(View):
    """Newest first; `next` is the cursor of the next page, null at the end."""

    entries: list[HistoryEntry]
    next: str | None = None


class FieldView(View):
    """A row of the field table."""

    path: str
    type: str
    unit: str | None
    default: Any
    required: bool
    documentation: str
    layers: list[str]
    change: str
    only_for: list[str]


class Fields(View):
    """The field table."""

    fields: list[FieldView]
