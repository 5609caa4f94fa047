"""Further Kafka clusters of a cell, by name: the setting `PENSTOCK_KAFKA_CLUSTERS`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import Field, ValidationError

from penstock.config.declare import NAME, NAME_RULE
from penstock.control.errors import Unavailable
from penstock.kafka.access import CLUSTERS, Kafka
from penstock.kafka.login import Login, NameOf
from penstock.kafka.registry import Registry


class Cluster(Login):
    """A cluster beside the cell's own: the same fields, without `PENSTOCK_KAFKA_`."""

    bootstrap: str = Field(min_length=1, description="its brokers: host:port, comma separated")
    gone: bool = Field(False, description="an operator says that it will never be back: nothing waits for it")

    def as_kafka(self, name: str, registry: Registry | None) -> Kafka:
        """How it is reached. Raises Unavailable when a file cannot be read, or is not what it is for."""
        name_of = _names_of(f"{CLUSTERS}: {name}")
        problem = self.problem_of_files(name_of)
        if problem is not None:
            raise Unavailable(problem)
        return self.to_kafka(self.bootstrap, name_of, registry, name)


def clusters_of(value: Any) -> dict[str, Cluster]:
    """The clusters of the setting, which is JSON text or an object. Raises ValueError, which names the cluster, the
    field and the rule. Files are read when a cluster is used: one that is gone stops the jobs of its cluster only."""
    given = _parsed(value)
    found = {name: _cluster(name, each) for name, each in given.items()}
    require_own_brokers({name: cluster.bootstrap for name, cluster in found.items()})
    return found


def require_own_brokers(bootstraps: Mapping[str, str]) -> None:
    """Raises ValueError when two clusters name one broker: a topic would then have two names, and loops would not be
    seen. `bootstraps`: by name of the cluster."""
    owners: dict[str, str] = {}
    for name, bootstrap in bootstraps.items():
        for address in sorted(set(_addresses(bootstrap))):
            if address in owners:
                raise ValueError(
                    f"{name}.bootstrap: {address} is a broker of {owners[address]}: name each cluster once"
                )
            owners[address] = name


def _parsed(value: Any) -> Mapping[str, Any]:
    if value is None or value == "":
        return {}
    try:
        given = json.loads(value) if isinstance(value, str) else value
    except ValueError:
        given = None
    if not isinstance(given, Mapping):
        raise ValueError('needs a JSON object such as {"eu": {"bootstrap": "kafka:9092"}}')
    return given


def _cluster(name: str, value: Any) -> Cluster:
    if not re.fullmatch(NAME, name):
        raise ValueError(f"{name}: the name of a cluster {NAME_RULE}")
    try:
        cluster = Cluster.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, (name, *first["loc"])))
        raise ValueError(f"{where}: {first['msg'].removeprefix('Value error, ')}") from error
    problem = cluster.misfit(_names_of(name))
    if problem is not None:
        raise ValueError(problem)
    return cluster


def _names_of(name: str) -> NameOf:
    return lambda field: f"{name}.{field}"


def _addresses(bootstrap: str) -> Iterable[str]:
    return (address.strip().lower() for address in bootstrap.split(",") if address.strip())
