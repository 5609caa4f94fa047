"""The settings that say how the cell's Kafka, and its further clusters, are reached, for each class of settings that
names its brokers."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self

from pydantic import BaseModel, Field, field_serializer, field_validator, model_validator

from penstock.control.errors import Unavailable, UserError
from penstock.control.texts import likely
from penstock.kafka.access import CLUSTERS, Kafka, Mechanism, Protocol
from penstock.kafka.clusters import Cluster, clusters_of, require_own_brokers
from penstock.kafka.login import URL, Login, none_if_empty, text_of, wrong_password
from penstock.kafka.registry import Registry

_PREFIX = "PENSTOCK_"
_KAFKA = "kafka_"
_REGISTRY = ("schema_registry_url", "schema_registry_username", "schema_registry_password_file")
_OWN = "the cell's own Kafka"
KNOWN_CLUSTER = "known_cluster"
"""The rule that a cluster must be among the settings."""


class KafkaSettings(BaseModel):
    """Security of the cell's Kafka, and its further clusters. What is secret is in files, whose paths are no secrets.

    A service and its hosts fail at their start where the settings do not fit each other, or a file cannot be read. The
    fields of the cell's own Kafka are those of `Login`.
    """

    kafka_security_protocol: Protocol = Field("PLAINTEXT", description="the brokers' listener")
    kafka_sasl_mechanism: Mechanism | None = Field(None, description="how a user logs in")
    kafka_sasl_username: str | None = Field(None, description="who logs in")
    kafka_sasl_password_file: Path | None = Field(None, description="file with the password, in one line")
    kafka_oauth_token_url: str | None = Field(
        None, pattern=URL, description="where OAUTHBEARER gets tokens, as the client that logs in"
    )
    kafka_oauth_scope: str | None = Field(None, description="scope of the tokens")
    kafka_ssl_ca: Path | None = Field(None, description="authorities that sign the brokers' certificates (PEM)")
    kafka_ssl_certificate: Path | None = Field(None, description="the client's certificate, with its chain (PEM)")
    kafka_ssl_key: Path | None = Field(None, description="the key of the certificate: PEM, PKCS 8, not encrypted")
    kafka_clusters: dict[str, Cluster] | None = Field(
        None, description="further clusters by name, as JSON: of each `bootstrap` and the fields above without `kafka_`"
    )
    schema_registry_url: str | None = Field(
        None, pattern=r"^https?://[^\s,@]+$", description="the schema registry of Avro and Protobuf records"
    )
    schema_registry_username: str | None = Field(None, description="who logs in there (basic authentication)")
    schema_registry_password_file: Path | None = Field(None, description="file with that password, in one line")

    @field_validator(
        *(f"{_KAFKA}{name}" for name in Login.model_fields if name != "security_protocol"), *_REGISTRY, mode="before"
    )
    @classmethod
    def _nothing_is_absent(cls, value: Any) -> Any:
        return none_if_empty(value)

    @field_validator("kafka_clusters", mode="before")
    @classmethod
    def _clusters(cls, value: Any) -> dict[str, Cluster] | None:
        return clusters_of(value) or None

    @field_serializer("kafka_clusters", when_used="json")
    def _as_given(self, clusters: dict[str, Cluster] | None) -> dict[str, Any] | None:
        """Only what was set."""
        return clusters and {
            name: each.model_dump(mode="json", exclude_defaults=True) for name, each in clusters.items()
        }

    @model_validator(mode="after")
    def _fit_each_other(self) -> Self:
        problem = self._own.problem(_variable_of_kafka) or self._problem_of_registry()
        if problem is not None:
            raise ValueError(problem)
        return self

    @property
    def cluster_names(self) -> tuple[str, ...]:
        """The names of the further clusters, without those that are gone."""
        return tuple(sorted((self.kafka_clusters or {}).keys() - self.gone_clusters))

    @property
    def gone_clusters(self) -> frozenset[str]:
        """The names of the clusters that an operator has declared gone for good."""
        return frozenset(name for name, cluster in (self.kafka_clusters or {}).items() if cluster.gone)

    def kafka_of(self, bootstrap: str) -> Kafka:
        """How these brokers, of the cell's own Kafka, are reached, with the files as they are now. Raises Unavailable
        when one cannot be read."""
        return self._own.to_kafka(bootstrap, _variable_of_kafka, self._registry())

    def further_cluster(self, name: str) -> Kafka:
        """How a further cluster is reached. Raises UserError when there is none of this name, or it is gone,
        Unavailable when a file cannot be read."""
        cluster = (self.kafka_clusters or {}).get(name)
        if cluster is None or cluster.gone:
            raise UserError(self.unknown_cluster(name), field="cluster", rule=KNOWN_CLUSTER)
        return cluster.as_kafka(name, self._registry())

    def unknown_cluster(self, name: str) -> str:
        """That there is no cluster of this name, or no more, for people."""
        if name in self.gone_clusters:
            return f"the Kafka cluster {name} is gone for good: {CLUSTERS} says so (`gone`)"
        return f"there is no Kafka cluster {name} in {CLUSTERS}; {likely(name, self.cluster_names)}"

    def require_own_brokers(self, bootstrap: str) -> None:
        """Raises ValueError when a further cluster names a broker of the cell's own Kafka."""
        further = {name: each.bootstrap for name, each in (self.kafka_clusters or {}).items()}
        try:
            require_own_brokers({_OWN: bootstrap, **further})
        except ValueError as error:
            raise ValueError(f"{CLUSTERS}: {error}") from error

    @property
    def _own(self) -> Login:
        return Login.model_construct(**{name: getattr(self, f"{_KAFKA}{name}") for name in Login.model_fields})

    def _registry(self) -> Registry | None:
        if self.schema_registry_url is None:
            return None
        *_, name = _REGISTRY
        password = text_of(self.schema_registry_password_file, _variable(name))
        secret = None if password is None else password.removesuffix("\n")
        return Registry(self.schema_registry_url, self.schema_registry_username, secret)

    def _problem_of_registry(self) -> str | None:
        _, username, password = _REGISTRY
        for name in (username, password):
            if self.schema_registry_url is None and getattr(self, name) is not None:
                return f"{_variable(name)}: set PENSTOCK_SCHEMA_REGISTRY_URL, or leave this out"
        if (self.schema_registry_username is None) != (self.schema_registry_password_file is None):
            missing = username if self.schema_registry_username is None else password
            return f"{_variable(missing)}: a user and its password file go together"
        try:
            text = text_of(self.schema_registry_password_file, _variable(password))
        except Unavailable as error:
            return error.detail
        return None if text is None else wrong_password(_variable(password), text)


def _variable(name: str) -> str:
    return f"{_PREFIX}{name}".upper()


def _variable_of_kafka(field: str) -> str:
    return _variable(f"{_KAFKA}{field}")
