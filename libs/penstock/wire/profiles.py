"""Profiles in the Job Service's API."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field

from penstock.tasks.profile import LEAST_SECONDS, MOST_SECONDS, ProfileReport
from penstock.wire.jobs import JsonObject, View, WithReason

DEFAULT_SECONDS = 60


class ProfileWrite(WithReason):
    """`POST .../profiles`: a Spark host runs the query of the job's first task, and throws its results away."""

    seconds: Annotated[int, Field(ge=LEAST_SECONDS, le=MOST_SECONDS, description="for how long it runs")] = (
        DEFAULT_SECONDS
    )


class ProfileView(View):
    """A profile. `config` is the expected configuration of `revision`, which the profile runs. `detail`: how far it is,
    or why it failed. `report` is null unless it is done; its rates are rows per second of one task while it works."""

    number: int
    job: str
    state: Literal["asked", "done", "failed"]
    detail: str
    seconds: int
    revision: int
    config: JsonObject
    container: str | None
    report: ProfileReport | None
    author: str
    reason: str
    created_at: datetime
    finished_at: datetime | None


class ProfilePage(View):
    """Profiles, newest first; `next` leads to the following page."""

    profiles: list[ProfileView]
    next: str | None = None
