"""How a client shows a Kafka who it is: the fields of the cell's own and of each further cluster, and their rules."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, field_validator

from penstock.control.errors import Unavailable
from penstock.kafka.access import Kafka, Mechanism, Protocol
from penstock.kafka.registry import Registry

_SASL = ("sasl_mechanism", "sasl_username", "sasl_password_file")
_OAUTH = ("oauth_token_url", "oauth_scope")
_TLS = ("ssl_ca", "ssl_certificate", "ssl_key")
_PASSWORD, _KEY = "sasl_password_file", "ssl_key"
_FILES = (_PASSWORD, *_TLS)
_PKCS8 = "-----BEGIN PRIVATE KEY-----"
NameOf = Callable[[str], str]
"""How people know a field."""
URL = "^https?://"


class Login(BaseModel):
    """Security of a Kafka. What is secret is in files, whose paths are no secrets."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    security_protocol: Protocol = Field("PLAINTEXT", description="the brokers' listener")
    sasl_mechanism: Mechanism | None = Field(None, description="how a user logs in")
    sasl_username: str | None = Field(None, description="who logs in")
    sasl_password_file: Path | None = Field(None, description="file with the password, in one line")
    oauth_token_url: str | None = Field(None, pattern=URL, description="where OAUTHBEARER gets tokens")
    oauth_scope: str | None = Field(None, description="scope of the tokens")
    ssl_ca: Path | None = Field(None, description="authorities that sign the brokers' certificates (PEM)")
    ssl_certificate: Path | None = Field(None, description="the client's certificate, with its chain (PEM)")
    ssl_key: Path | None = Field(None, description="the key of the certificate: PEM, PKCS 8, not encrypted")

    @field_validator(*_SASL, *_OAUTH, *_TLS, mode="before")
    @classmethod
    def _nothing_is_absent(cls, value: Any) -> Any:
        return none_if_empty(value)

    def to_kafka(self, bootstrap: str, name_of: NameOf, registry: Registry | None, cluster: str | None = None) -> Kafka:
        """How these brokers are reached, with the files as they are now. Raises Unavailable when one cannot be read."""
        texts = {field: text_of(getattr(self, field), name_of(field)) for field in _FILES}
        password = texts[_PASSWORD]
        return Kafka(
            bootstrap,
            self.security_protocol,
            self.sasl_mechanism,
            self.sasl_username,
            None if password is None else password.removesuffix("\n"),
            texts["ssl_ca"],
            texts["ssl_certificate"],
            texts[_KEY],
            self.oauth_token_url,
            self.oauth_scope,
            registry,
            cluster,
        )

    def problem(self, name_of: NameOf) -> str | None:
        """What is wrong, also with the files: the field and its rule."""
        return self.misfit(name_of) or self.problem_of_files(name_of)

    def problem_of_files(self, name_of: NameOf) -> str | None:
        """Which file cannot be read, or is not what it is for."""
        return next((told for field in _FILES if (told := self._unreadable(field, name_of))), None)

    def misfit(self, name_of: NameOf) -> str | None:
        """Which fields do not fit each other."""
        protocol = self.security_protocol
        for group, part in ((_SASL, "SASL"), (_TLS, "SSL")):
            for field in group:
                if part not in protocol and getattr(self, field) is not None:
                    return f"{name_of(field)}: {protocol} has no use for it; set {name_of('security_protocol')}"
        for field in _SASL:
            if "SASL" in protocol and getattr(self, field) is None:
                return f"{name_of(field)}: {protocol} needs it"
        for field in _OAUTH:
            if self.sasl_mechanism != "OAUTHBEARER" and getattr(self, field) is not None:
                return f"{name_of(field)}: only {name_of('sasl_mechanism')}=OAUTHBEARER has a use for it"
        if self.sasl_mechanism == "OAUTHBEARER" and self.oauth_token_url is None:
            return f"{name_of(_OAUTH[0])}: OAUTHBEARER needs it"
        if (self.ssl_certificate, self.ssl_key).count(None) == 1:
            missing = _KEY if self.ssl_key is None else "ssl_certificate"
            return f"{name_of(missing)}: a certificate and its key go together"
        return None

    def _unreadable(self, field: str, name_of: NameOf) -> str | None:
        try:
            text = text_of(getattr(self, field), name_of(field))
        except Unavailable as error:
            return error.detail
        if text is None:
            return None
        if field == _PASSWORD:
            return wrong_password(name_of(field), text)
        if field == _KEY and _PKCS8 not in text:
            return f"{name_of(field)}: needs `{_PKCS8}` (PKCS 8, not encrypted), which `openssl pkcs8 -topk8` writes"
        return None if "-----BEGIN " in text else f"{name_of(field)}: is not PEM"


def none_if_empty(value: Any) -> Any:
    """Compose gives an empty text for a variable that nobody has set."""
    return None if value == "" else value


def text_of(path: Path | None, name: str) -> str | None:
    """The content of a file; None without one. Raises Unavailable when it cannot be read."""
    try:
        return None if path is None else path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "is no text"
        raise Unavailable(f"{name}: {path} cannot be read: {why}") from error


def wrong_password(name: str, text: str) -> str | None:
    """Why a file's text is no password."""
    password = text.removesuffix("\n")
    return None if password and password.isprintable() else f"{name}: needs one line of text, the password"
