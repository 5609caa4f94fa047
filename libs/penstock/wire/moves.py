"""Moves of single tasks to other containers, in the Job Service's API."""

from __future__ import annotations

from pydantic import Field

from penstock.wire.jobs import View, WithReason


class MoveWrite(WithReason):
    """`POST .../tasks/{index}/move`. `container`: refused when the task is on another one."""

    for_seconds: int = Field(3600, ge=60, le=86_400, description="how long the task stays away from the container")
    container: str | None = Field(None, description="where the task is slow; null: where it is")


class TaskMove(View):
    """A move that was asked for: `container` is the one that the task leaves."""

    job: str
    index: int
    container: str
    for_seconds: int
