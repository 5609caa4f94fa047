"""What a browser keeps for the console: sealed, so that nobody reads or changes it. Pure.

A cookie is encrypted and signed (Fernet, of the package cryptography). A form's token is a MAC of the session that it
was made for, so it is worth nothing to another session.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import get_args

from cryptography.fernet import Fernet, InvalidToken
from pydantic import BaseModel, ConfigDict, ValidationError

from penstock.model.jobs import Role

MAY_OPERATE: Sequence[Role] = ("oncall", "admin")
"""Roles to which the console shows forms that operate. The Job Service decides (`services/job_service/access.py`)."""
ANY_LAYER = "*"
assert set(MAY_OPERATE) <= set(get_args(Role))


class Session(BaseModel):
    """Who is signed in. `nonce` is different in each session; `token` is what the Job Service knows the user by."""

    model_config = ConfigDict(frozen=True)

    nonce: str
    token: str
    name: str
    role: Role
    layers: tuple[str, ...]

    @property
    def may_operate(self) -> bool:
        """Whether to show what operates jobs, containers and alerts."""
        return self.role in MAY_OPERATE

    @property
    def may_write(self) -> bool:
        """Whether to show what writes layers."""
        return self.role != "reader" and bool(self.layers)

    def may_write_layer(self, layer: str) -> bool:
        """Whether to show what writes this layer."""
        return self.may_write and bool({layer, ANY_LAYER} & set(self.layers))


class Seal:
    """Seals with a secret of the console. `lifetime`: how long a cookie is good."""

    def __init__(self, secret: bytes, lifetime: timedelta) -> None:
        self._cookies = Fernet(base64.urlsafe_b64encode(_derived(secret, b"cookies")))
        self._forms = _derived(secret, b"forms")
        self._lifetime = lifetime

    def close(self, session: Session, now: datetime) -> str:
        """The session as the value of a cookie."""
        return self._cookies.encrypt_at_time(session.model_dump_json().encode(), int(now.timestamp())).decode()

    def open(self, cookie: str | None, now: datetime) -> Session | None:
        """The session of a cookie; None when there is none, it is too old, or was not sealed here."""
        if not cookie:
            return None
        try:
            seconds = int(self._lifetime.total_seconds())
            content = self._cookies.decrypt_at_time(cookie.encode(), seconds, int(now.timestamp()))
            return Session.model_validate_json(content)
        except (InvalidToken, ValidationError):
            return None

    def form_token(self, nonce: str) -> str:
        """What each form of a session carries."""
        return hmac.new(self._forms, nonce.encode(), hashlib.sha256).hexdigest()

    def is_form_token(self, token: str, nonce: str) -> bool:
        """Whether a form was made for the session of this nonce."""
        return hmac.compare_digest(token.encode(), self.form_token(nonce).encode())


def _derived(secret: bytes, purpose: bytes) -> bytes:
    return hmac.new(secret, b"penstock console " + purpose, hashlib.sha256).digest()
