"""The settings that say how the cell's Kafka is reached, for each class of settings that names its brokers."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self

from pydantic import BaseModel, Field, field_validator, model_validator

from penstock.control.errors import Unavailable
from penstock.kafka.access import Kafka, Mechanism, Protocol
from penstock.kafka.registry import Registry

_PREFIX = "PENSTOCK_"
_PASSWORDS = ("kafka_sasl_password_file", "schema_registry_password_file")
_FILES = (*_PASSWORDS, "kafka_ssl_ca", "kafka_ssl_certificate", "kafka_ssl_key")
_SASL = ("kafka_sasl_mechanism", "kafka_sasl_username", "kafka_sasl_password_file")
_OAUTH = ("kafka_oauth_token_url", "kafka_oauth_scope")
_REGISTRY = ("schema_registry_url", "schema_registry_username", "schema_registry_password_file")
_TLS = ("kafka_ssl_ca", "kafka_ssl_certificate", "kafka_ssl_key")
_PKCS8 = "-----BEGIN PRIVATE KEY-----"


class KafkaSettings(BaseModel):
    """Security of the cell's Kafka. What is secret is in files, whose paths are no secrets.

    A service and its hosts fail at their start where the settings do not fit each other, or a file cannot be read.
    """

    kafka_security_protocol: Protocol = Field("PLAINTEXT", description="the brokers' listener")
    kafka_sasl_mechanism: Mechanism | None = Field(None, description="how a user logs in")
    kafka_sasl_username: str | None = Field(None, description="who logs in")
    kafka_sasl_password_file: Path | None = Field(None, description="file with the password, in one line")
    kafka_oauth_token_url: str | None = Field(
        None, pattern="^https?://", description="where OAUTHBEARER gets tokens, as the client that logs in"
    )
    kafka_oauth_scope: str | None = Field(None, description="scope of the tokens")
    kafka_ssl_ca: Path | None = Field(None, description="authorities that sign the brokers' certificates (PEM)")
    kafka_ssl_certificate: Path | None = Field(None, description="the client's certificate, with its chain (PEM)")
    kafka_ssl_key: Path | None = Field(None, description="the key of the certificate: PEM, PKCS 8, not encrypted")
    schema_registry_url: str | None = Field(
        None, pattern=r"^https?://[^\s,@]+$", description="the schema registry of Avro records"
    )
    schema_registry_username: str | None = Field(None, description="who logs in there (basic authentication)")
    schema_registry_password_file: Path | None = Field(None, description="file with that password, in one line")

    @field_validator(*_SASL, *_OAUTH, *_TLS, *_REGISTRY, mode="before")
    @classmethod
    def _nothing_is_absent(cls, value: Any) -> Any:
        """Compose gives an empty text for a variable that nobody has set."""
        return None if value == "" else value

    @model_validator(mode="after")
    def _fit_each_other(self) -> Self:
        problem = self._problem()
        if problem is not None:
            raise ValueError(problem)
        return self

    def kafka_of(self, bootstrap: str) -> Kafka:
        """How these brokers are reached, with the files as they are now. Raises Unavailable when one cannot be read."""
        texts = {name: self._text(name) for name in _FILES}
        password = texts["kafka_sasl_password_file"]
        return Kafka(
            bootstrap,
            self.kafka_security_protocol,
            self.kafka_sasl_mechanism,
            self.kafka_sasl_username,
            None if password is None else password.removesuffix("\n"),
            texts["kafka_ssl_ca"],
            texts["kafka_ssl_certificate"],
            texts["kafka_ssl_key"],
            self.kafka_oauth_token_url,
            self.kafka_oauth_scope,
            self._registry(texts["schema_registry_password_file"]),
        )

    def _registry(self, password: str | None) -> Registry | None:
        if self.schema_registry_url is None:
            return None
        secret = None if password is None else password.removesuffix("\n")
        return Registry(self.schema_registry_url, self.schema_registry_username, secret)

    def _problem(self) -> str | None:
        """What is wrong: the variable and its rule."""
        return self._misfit() or next((told for name in _FILES if (told := self._unreadable(name))), None)

    def _misfit(self) -> str | None:
        protocol = self.kafka_security_protocol
        for group, part in ((_SASL, "SASL"), (_TLS, "SSL")):
            for name in group:
                if part not in protocol and getattr(self, name) is not None:
                    return f"{_variable(name)}: {protocol} has no use for it; set PENSTOCK_KAFKA_SECURITY_PROTOCOL"
        for name in _SASL:
            if "SASL" in protocol and getattr(self, name) is None:
                return f"{_variable(name)}: {protocol} needs it"
        for name in _OAUTH:
            if self.kafka_sasl_mechanism != "OAUTHBEARER" and getattr(self, name) is not None:
                return f"{_variable(name)}: only PENSTOCK_KAFKA_SASL_MECHANISM=OAUTHBEARER has a use for it"
        if self.kafka_sasl_mechanism == "OAUTHBEARER" and self.kafka_oauth_token_url is None:
            return f"{_variable(_OAUTH[0])}: OAUTHBEARER needs it"
        pair = (self.kafka_ssl_certificate, self.kafka_ssl_key)
        if pair.count(None) == 1:
            missing = "kafka_ssl_key" if self.kafka_ssl_key is None else "kafka_ssl_certificate"
            return f"{_variable(missing)}: a certificate and its key go together"
        return self._misfit_of_registry()

    def _misfit_of_registry(self) -> str | None:
        _, username, password = _REGISTRY
        for name in (username, password):
            if self.schema_registry_url is None and getattr(self, name) is not None:
                return f"{_variable(name)}: set PENSTOCK_SCHEMA_REGISTRY_URL, or leave this out"
        if (self.schema_registry_username is None) != (self.schema_registry_password_file is None):
            missing = username if self.schema_registry_username is None else password
            return f"{_variable(missing)}: a user and its password file go together"
        return None

    def _unreadable(self, name: str) -> str | None:
        try:
            text = self._text(name)
        except Unavailable as error:
            return error.detail
        if text is None:
            return None
        if name in _PASSWORDS:
            return _wrong_password(name, text)
        if name == "kafka_ssl_key" and _PKCS8 not in text:
            return f"{_variable(name)}: needs `{_PKCS8}` (PKCS 8, not encrypted), which `openssl pkcs8 -topk8` writes"
        return None if "-----BEGIN " in text else f"{_variable(name)}: is not PEM"

    def _text(self, name: str) -> str | None:
        path: Path | None = getattr(self, name)
        try:
            return None if path is None else path.read_text()
        except (OSError, UnicodeDecodeError) as error:
            why = getattr(error, "strerror", None) or "is no text"
            raise Unavailable(f"{_variable(name)}: {path} cannot be read: {why}") from error


def _wrong_password(name: str, text: str) -> str | None:
    password = text.removesuffix("\n")
    if password and password.isprintable():
        return None
    return f"{_variable(name)}: needs one line of text, the password"


def _variable(name: str) -> str:
    return f"{_PREFIX}{name}".upper()
