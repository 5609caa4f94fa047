"""Requests about tokens, and their answers."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import Field

from penstock.config.declare import Name
from penstock.model.jobs import Role
from penstock.wire.jobs import View, WithReason

LONGEST_TOKEN_SECONDS = 10 * 366 * 86_400
DEFAULT_OVERLAP_SECONDS = 3600
_LONGEST_OVERLAP_SECONDS = 30 * 86_400


class TokenWrite(WithReason):
    """`POST /v1/tokens`. `layers` absent: those of the role. `*` stands for every layer."""

    name: Name
    role: Role
    layers: list[Name | Literal["*"]] | None = Field(None, max_length=100)
    expires_in_seconds: int | None = Field(
        None, ge=1, le=LONGEST_TOKEN_SECONDS, description="null or absent: the token never expires"
    )


class TokenRotate(WithReason):
    """`POST /v1/tokens/{name}/rotate`: a new secret, and perhaps another expiry."""

    overlap_seconds: int = Field(
        DEFAULT_OVERLAP_SECONDS, ge=0, le=_LONGEST_OVERLAP_SECONDS, description="how long the secret before stays good"
    )
    expires_in_seconds: int | None = Field(
        None, ge=1, le=LONGEST_TOKEN_SECONDS, description="null: never; absent: the token's expiry stays"
    )


class TokenView(View):
    """A token without its secret. `expires_at` null: never."""

    name: str
    role: Role
    layers: list[str]
    created_at: datetime | None = None
    revoked_at: datetime | None = None
    expires_at: datetime | None = None


class TokenCreated(TokenView):
    """A new token with its secret, shown this once; null when the answer is repeated for an Idempotency-Key."""

    token: str | None


class Tokens(View):
    """All tokens, revoked ones too."""

    tokens: list[TokenView]
