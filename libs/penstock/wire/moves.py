"""Moves of single tasks to other containers, in the Job Service's API."""

from __future__ import annotations

from pydantic import Field, field_validator

from penstock.wire.jobs import View, WithReason

LEAST_SECONDS = 60


class MoveWrite(WithReason):
    """`POST .../tasks/{index}/move`. `container`: refused when the task is on another one, unless a move is ended."""

    for_seconds: int = Field(
        3600, ge=0, le=86_400, description="how long the task stays away from the container; 0: no longer"
    )
    container: str | None = Field(
        None, description="where the task is slow; null: where it is, or for 0 seconds any that it stays away from"
    )

    @field_validator("for_seconds")
    @classmethod
    def _long_enough(cls, value: int) -> int:
        if 0 < value < LEAST_SECONDS:
            raise ValueError(f"0 or at least {LEAST_SECONDS}")
        return value


class TaskMove(View):
    """A move that was asked for: `container` is the one that the task leaves; when moves are ended, where it is.

    `unknown`: why it is not known whether another container may take the task; null: one may, or the move was ended."""

    job: str
    index: int
    container: str
    for_seconds: int
    unknown: str | None = None
