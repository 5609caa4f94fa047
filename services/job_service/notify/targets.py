"""Where alerts are sent. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, field_validator

from penstock.config.declare import Model, Name
from penstock.model.alerts import AlertKind


class Shape(StrEnum):
    """How a message is written: Alertmanager's API v2, Slack's incoming webhook, or plain JSON."""

    ALERTMANAGER = "alertmanager"
    SLACK = "slack"
    JSON = "json"


class Target(Model):
    """A webhook. `secret`: signs each message. `kinds`: the alerts that it is told of; empty: all.

    `url` of the shape `alertmanager` is the base address of Alertmanager. It may be a secret, as Slack's is.
    """

    name: Name
    shape: Shape
    url: SecretStr
    secret: SecretStr | None = Field(None, min_length=16)
    kinds: tuple[AlertKind, ...] = ()

    @field_validator("url")
    @classmethod
    def _is_http(cls, url: SecretStr) -> SecretStr:
        parts = urlsplit(url.get_secret_value())
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("must be an http or https URL")
        return url


def require_own_names(targets: Sequence[Target]) -> None:
    """Raises ValueError when two targets have one name: it says what was sent where."""
    names = [target.name for target in targets]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"two targets have the name {twice[0]}")
