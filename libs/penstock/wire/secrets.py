"""Requests about secrets, and their answers. No value is in any of them."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import Field

from penstock.wire.jobs import View, WithReason

JobPattern = Annotated[str, Field(pattern=r"^(\*|[a-z0-9][a-z0-9._-]{0,99}\*?)$")]


class SecretWrite(WithReason):
    """`PUT /v1/secrets/{secret}`: the jobs that may use it, by name; `team-a.*` stands for all that begin so."""

    jobs: list[JobPattern] = Field(min_length=1, max_length=1000)


class SecretView(View):
    """A secret without its value."""

    name: str
    jobs: list[str]
    author: str
    updated_at: datetime


class Secrets(View):
    """All secrets, by name."""

    secrets: list[SecretView]
