"""Requests about tokens, and their answers."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import Field

from penstock.config.declare import Model, Name
from penstock.model.jobs import Role
from penstock.wire.jobs import View


class TokenWrite(Model):
    """`POST /v1/tokens`. `layers` absent: those of the role. `*` stands for every layer."""

    name: Name
    role: Role
    layers: list[Name | Literal["*"]] | None = Field(None, max_length=100)


class TokenView(View):
    """A token without its secret."""

    name: str
    role: Role
    layers: list[str]
    created_at: datetime | None = None
    revoked_at: datetime | None = None


class TokenCreated(TokenView):
    """A new token with its secret, shown this once; null when the answer is repeated for an Idempotency-Key."""

    token: str | None


class Tokens(View):
    """All tokens, revoked ones too."""

    tokens: list[TokenView]
