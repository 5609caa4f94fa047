"""How a Kafka is reached: one value, which turns itself into the settings of librdkafka and of Kafka's Java clients.

Certificates and keys go into both as text (PEM), so no process needs a file of another's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Literal

from penstock.kafka.registry import Registry

Protocol = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
Mechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"]
_OAUTH = "org.apache.kafka.common.security.oauthbearer."
_PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
_SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
CLUSTERS = "PENSTOCK_KAFKA_CLUSTERS"
"""The setting of all clusters but the cell's own."""


@dataclass(frozen=True)
class Kafka:
    """The brokers (`host:port`, comma separated), and how a client shows who it is.

    With OAUTHBEARER a client gets its tokens at `token_url`, as the OAuth client `username` with the secret `password`.
    `authorities`, `certificate`, `key`: PEM. Without `authorities` the machine's own count. `registry`: where writers'
    schemas of its records are, if anywhere. `cluster`: its name; None: the cell's own. `Login` checks that the parts
    fit each other.
    """

    bootstrap: str
    protocol: Protocol = "PLAINTEXT"
    mechanism: Mechanism | None = None
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    authorities: str | None = field(default=None, repr=False)
    certificate: str | None = field(default=None, repr=False)
    key: str | None = field(default=None, repr=False)
    token_url: str | None = None
    scope: str | None = None
    registry: Registry | None = None
    cluster: str | None = None

    def __str__(self) -> str:
        return self.bootstrap if self.cluster is None else f"{self.cluster} ({self.bootstrap})"

    def setting(self, field: str) -> str:
        """The setting that a field comes from, for people."""
        if self.cluster is None:
            return f"PENSTOCK_KAFKA_{field}".upper()
        return f"{self.cluster}.{field} in {CLUSTERS}"

    def client_settings(self) -> dict[str, str]:
        """The settings of librdkafka (`confluent_kafka`)."""
        settings = {
            "bootstrap.servers": self.bootstrap,
            "security.protocol": None if self.protocol == "PLAINTEXT" else self.protocol,
            "sasl.mechanism": self.mechanism,
            **self._client_login(),
            "ssl.ca.pem": self.authorities,
            "ssl.certificate.pem": self.certificate,
            "ssl.key.pem": self.key,
        }
        return {name: value for name, value in settings.items() if value is not None}

    def java_settings(self) -> dict[str, str]:
        """The settings of a Java client."""
        settings = {
            "bootstrap.servers": self.bootstrap,
            "security.protocol": None if self.protocol == "PLAINTEXT" else self.protocol,
            "sasl.mechanism": self.mechanism,
            "sasl.jaas.config": self._java_login(),
            "sasl.oauthbearer.token.endpoint.url": self.token_url,
            "sasl.login.callback.handler.class": self.token_url and f"{_OAUTH}OAuthBearerLoginCallbackHandler",
            "ssl.truststore.type": None if self.authorities is None else "PEM",
            "ssl.truststore.certificates": self.authorities,
            "ssl.keystore.type": None if self.key is None else "PEM",
            "ssl.keystore.certificate.chain": self.certificate,
            "ssl.keystore.key": self.key,
        }
        return {name: value for name, value in settings.items() if value is not None}

    def spark_options(self) -> dict[str, str]:
        """The options of Spark's sources and sinks."""
        return {f"kafka.{name}": value for name, value in self.java_settings().items()}

    def secret_values(self) -> Iterator[str]:
        """What no text may show."""
        of_registry = None if self.registry is None else self.registry.password
        yield from (value for value in (self.password, self.key, of_registry) if value is not None)

    def login(self) -> str:
        """As whom a client logs in, for people."""
        if self.mechanism is not None:
            return f"the user {self.username} ({self.mechanism})"
        return (
            f"the certificate of {self.setting('ssl_certificate')}" if self.certificate else "a client without a login"
        )

    def _client_login(self) -> dict[str, str | None]:
        if self.mechanism != "OAUTHBEARER":
            return {"sasl.username": self.username, "sasl.password": self.password}
        return {
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.client.id": self.username,
            "sasl.oauthbearer.client.secret": self.password,
            "sasl.oauthbearer.token.endpoint.url": self.token_url,
            "sasl.oauthbearer.scope": self.scope,
        }

    def _java_login(self) -> str | None:
        """In the form of JAAS."""
        if self.mechanism is None:
            return None
        module = _PLAIN_MODULE if self.mechanism == "PLAIN" else _SCRAM_MODULE
        username, password = _quoted(self.username or ""), _quoted(self.password or "")
        if self.mechanism == "OAUTHBEARER":
            scope = "" if self.scope is None else f" scope={_quoted(self.scope)}"
            return f"{_OAUTH}OAuthBearerLoginModule required clientId={username} clientSecret={password}{scope};"
        return f"{module} required username={username} password={password};"


Brokers = Kafka | str
"""A text stands for a Kafka that is open to everybody, at this address."""


Clusters = Callable[[str | None], Kafka]
"""How a cluster is reached, by its name; None: the cell's own."""


def kafka_at(brokers: Brokers) -> Kafka:
    """The value that `brokers` stand for."""
    return brokers if isinstance(brokers, Kafka) else Kafka(brokers)


def _quoted(text: str) -> str:
    """A text of a JAAS configuration."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
