"""Requests about alerts and silences, and the answers about silences."""

from __future__ import annotations

from datetime import datetime

from pydantic import Field

from penstock.config.declare import Model
from penstock.model.alerts import AlertKind
from penstock.wire.jobs import LONGEST_EXPIRY_SECONDS, Reason, View, WithReason


class AcknowledgeWrite(WithReason):
    """`POST /v1/alerts/{alert}/acknowledgement`."""

    expires_in_seconds: int | None = Field(
        None, ge=1, le=LONGEST_EXPIRY_SECONDS, description="null or absent: until the alert closes"
    )


class SilenceWrite(Model):
    """`POST /v1/silences`: which alerts are left out of lists, why, and for how long. It must name a kind or more of
    the subject than `*`."""

    kind: AlertKind | None = Field(None, description="null: alerts of every kind")
    subject: str = Field(
        "*", min_length=1, max_length=300, pattern=r"^[^\x00]*$", description="`*` stands for any characters"
    )
    reason: Reason = Field(min_length=1)
    expires_in_seconds: int = Field(ge=1, le=LONGEST_EXPIRY_SECONDS)


class SilenceView(View):
    """A silence. It has ended when `expires_at` has passed."""

    id: int
    kind: str | None
    subject: str
    author: str
    reason: str
    created_at: datetime
    expires_at: datetime


class SilencePage(View):
    """Silences, newest first."""

    silences: list[SilenceView]
    next: str | None = None
