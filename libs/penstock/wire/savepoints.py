"""Savepoints in the Job Service's API."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field

from penstock.config.declare import Name
from penstock.wire.jobs import JsonObject, View, WithReason


class SavepointWrite(WithReason):
    """`POST .../savepoints`. Without a name the savepoint is named after the time.

    With `checkpoint` the savepoint is made of the checkpoint of another Spark application, which must have stopped.
    """

    name: Annotated[Name | None, Field(description="unique among the job's savepoints")] = None
    checkpoint: Annotated[
        str | None,
        Field(description="Hadoop path, below one of PENSTOCK_PATH_ROOTS", min_length=1, max_length=4096),
    ] = None


class RestoreWrite(WithReason):
    """`POST .../restore`: restores from a savepoint of this job or of the job `of`.

    `task_count`: restores at another size. `with_package`: also restores the package and the query of the savepoint.
    Both are a write to the highest layer that the caller may write. `allow_repeats`: the job may write rows again that
    other jobs read: they count them twice, or drop them as late.
    """

    savepoint: Name
    of: Annotated[Name | None, Field(description="the savepoint's job; this one if absent")] = None
    task_count: Annotated[int | None, Field(ge=1, le=10_000)] = None
    with_package: bool = False
    allow_repeats: bool = False


class SavedTaskView(View):
    """A task in a savepoint: its last finished batch; null if there was none. `taken_from`: the earlier savepoint whose
    copy is used because the task's checkpoint could not be copied, for the reason `why`. `unfinished`: the batch that
    an imported application had planned and not finished; its rows are read again."""

    index: int
    batch: int | None
    taken_from: str | None = None
    why: str | None = None
    unfinished: int | None = None


class SavepointView(View):
    """A savepoint. `generation`, `revision`, `config`: what ran; null until a container takes it. `tasks` and `bytes`
    (the size of all its files, links included) are null unless it is ready. `container`: the one that takes it, or was
    asked last; null before one is chosen. `detail`: why it failed, or why the last attempt did. `checkpoint`: that of
    another application, which it is made of."""

    number: int
    job: str
    name: str
    state: Literal["asked", "ready", "failed", "deleting"]
    detail: str
    generation: int | None
    revision: int | None
    config: JsonObject | None
    tasks: list[SavedTaskView] | None
    bytes: int | None
    author: str
    reason: str
    created_at: datetime
    finished_at: datetime | None
    checkpoint: str | None = None
    container: str | None = None


class SavepointPage(View):
    """Newest first; `next` is the cursor of the page that follows."""

    savepoints: list[SavepointView]
    next: str | None = None


def waits_for(savepoint: SavepointView) -> str:
    """What a savepoint that is asked for waits for, in a line for people; empty for another one. Pure."""
    if savepoint.state != "asked":
        return ""
    after = f"; the last attempt failed: {savepoint.detail}" if savepoint.detail else ""
    if savepoint.container is None:
        return f"waits for the State Syncer to choose a container{after}"
    copied = "the checkpoints" if savepoint.checkpoint is None else savepoint.checkpoint
    return (
        f"{savepoint.container} copies {copied}; without a warm Spark host it first starts one, "
        f"which takes up to a minute{after}"
    )
