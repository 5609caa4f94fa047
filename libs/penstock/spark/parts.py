"""What a job names of its container, the package, the connection, the secrets, and of Kafka, its input topics. Known
without Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial

from penstock.config.model import MAIN, JobConfig, KafkaOutput, PostgresOutput
from penstock.config.problems import Problem
from penstock.control.errors import BrokenTask, Unavailable
from penstock.control.texts import likely
from penstock.kafka.refusals import LOGIN
from penstock.kafka.settings import KNOWN_CLUSTER
from penstock.spark.access import read_secrets
from penstock.spark.inputs.topic_checks import input_topics, topic_problems
from penstock.spark.packages import ensure
from penstock.spark.settings import SparkSettings
from penstock.spark.stores import STORE_LOGIN
from penstock.tasks.analysis import AnalysisReport

# Who waits for an analysis waits two seconds longer than a host may take.
_KAFKA_SECONDS = 1.0


def connection_url(output: PostgresOutput, connections: Mapping[str, str], field: str = MAIN) -> str:
    """The URL of an output's connection. Raises BrokenTask when the container lacks it. `field`: the output's."""
    url = connections.get(output.connection)
    if url is None:
        raise BrokenTask(
            f"{field}.connection: the container has no connection {output.connection} in its PENSTOCK_CONNECTIONS; "
            f"{likely(output.connection, connections)}",
            rule="known_connection",
        )
    return url


def require_secrets(config: JobConfig, values: Mapping[str, str]) -> None:
    """Raises BrokenTask when a secret that the job names has no value."""
    for purpose, name in sorted(config.secrets.items()):
        _require_secret(purpose, name, values)


def _require_secret(purpose: str, name: str, values: Mapping[str, str]) -> None:
    if name not in values:
        raise BrokenTask(f"secrets.{purpose}: the container has no secret {name}", rule="known_secret")


def require_clusters(config: JobConfig, settings: SparkSettings) -> None:
    """Raises BrokenTask when the job names a Kafka cluster that the container does not know."""
    for field, cluster in _clusters(config):
        _require_cluster(field, cluster, settings)


def _require_cluster(field: str, cluster: str, settings: SparkSettings) -> None:
    if cluster not in settings.cluster_names:
        raise BrokenTask(f"{field}: {settings.unknown_cluster(cluster)}", rule=KNOWN_CLUSTER)


def _clusters(config: JobConfig) -> list[tuple[str, str]]:
    """The further clusters that a job names, with their fields."""
    named = {f"inputs.{name}.cluster": source.cluster for name, source in config.inputs.items()}
    for field, output in config.outputs.items():
        if isinstance(output, KafkaOutput):
            named[f"{field}.cluster"] = output.cluster
    return [(field, cluster) for field, cluster in named.items() if cluster is not None]


def missing_parts(config: JobConfig, settings: SparkSettings) -> list[Problem]:
    """What the job names and its container does not have, as a host would say it."""
    found = []
    for check in _checks(config, settings):
        try:
            check()
        except BrokenTask as error:
            field, rule = error.detail.partition(": ")[0], str(error.extra.get("rule", "can_run"))
            found.append(Problem(field, rule, error.detail))
    return found


def found_without_spark(config: JobConfig, has_time: bool, *, settings: SparkSettings) -> AnalysisReport:
    """The missing parts; for who `has_time`, also what Kafka says against the input topics, or against the login. That
    is nothing when it does not answer within a second."""
    found = missing_parts(config, settings)
    if not has_time or any(problem.rule == KNOWN_CLUSTER for problem in found):
        return AnalysisReport(problems=tuple(found))
    try:
        found += topic_problems(config, input_topics(config, settings.cluster, within_seconds=_KAFKA_SECONDS))
    except Unavailable as error:
        logins = login_problems("inputs", error)
        unchecked = (error.detail,) if logins else ()
        return AnalysisReport(problems=tuple(found), logins=tuple(logins), unchecked=unchecked)
    return AnalysisReport(problems=tuple(found))


def login_problems(field: str, error: Unavailable) -> list[Problem]:
    """The refused login, where that is why nobody answered. Pure."""
    rule = error.extra.get("rule")
    if rule not in (LOGIN, STORE_LOGIN):
        return []
    return [Problem(field, rule, f"{field}: {error.detail}")]


def _checks(config: JobConfig, settings: SparkSettings) -> Iterator[Callable[[], object]]:
    """One for each part, so that all missing ones are told. Each raises BrokenTask."""
    yield partial(ensure, config.package, settings.packages_root)
    for field, cluster in _clusters(config):
        yield partial(_require_cluster, field, cluster, settings)
    for field, output in config.outputs.items():
        if isinstance(output, PostgresOutput):
            yield partial(connection_url, output, settings.connections, field)
    values = read_secrets(config.secrets.values(), settings.secrets_root)
    for purpose, name in sorted(config.secrets.items()):
        yield partial(_require_secret, purpose, name, values)
