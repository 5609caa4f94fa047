"""What a job names and its container does not have, found without Spark."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest

from penstock.config.problems import Problem
from penstock.config.validate import check_merged
from penstock.control.errors import Unavailable
from penstock.kafka.access import Kafka
from penstock.kafka.clusters import clusters_of
from penstock.kafka.refusals import LOGIN
from penstock.spark import parts
from penstock.spark.packages import pack
from penstock.spark.parts import found_without_spark, missing_parts
from penstock.spark.settings import SparkSettings
from penstock.spark.topics import Topic
from tests.support.config.jobs import job

SETTINGS = SparkSettings(checkpoint_root="", kafka_bootstrap="127.0.0.1:1", connections={})
CLUSTERS = {"eu": {"bootstrap": "127.0.0.1:2"}}
PYTHON = {"query": {"sql": None, "python": "rules:f"}}
POSTGRES = {"type": "postgres", "topic": None, "key_groups": None, "key_columns": None, "table": "t"}


@pytest.mark.parametrize(
    ("change", "field", "rule"),
    [
        ({"package": {"name": "rules", "version": "2"}}, "package", "package_exists"),
        (
            {"package": {"name": "rules", "version": "1", "digest": f"sha256:{'0' * 64}"}},
            "package.digest",
            "package_digest",
        ),
        ({"output": POSTGRES | {"connection": "other"}}, "output.connection", "known_connection"),
        (
            {"side_outputs": {"a": {"output": {"type": "postgres", "table": "t", "connection": "other"}}}},
            "side_outputs.a.output.connection",
            "known_connection",
        ),
        (
            {"side_outputs": {"a": {"output": {"type": "kafka", "topic": "t", "cluster": "moon"}}}},
            "side_outputs.a.output.cluster",
            "known_cluster",
        ),
        (PYTHON | {"secrets": {"token": "absent"}}, "secrets.token", "known_secret"),
        ({"inputs": {"flights": {"cluster": "us"}}}, "inputs.flights.cluster", "known_cluster"),
    ],
)
def test_a_part_that_the_container_does_not_have_is_named(
    change: dict[str, Any], field: str, rule: str, tmp_path: Path
) -> None:
    (tmp_path / "rules").mkdir()
    (tmp_path / "rules" / "rules.py").write_text("def f(): ...\n")
    pack(tmp_path / "rules", "rules", "1", tmp_path)
    (tmp_path / "present").write_text("value")
    settings = SparkSettings(
        checkpoint_root=str(tmp_path),
        packages_root=tmp_path,
        secrets_root=tmp_path,
        connections={"default": "url"},
        kafka_clusters=CLUSTERS,
    )
    right = {"package": {"name": "rules", "version": "1"}, "output": POSTGRES | {"connection": "default"}}
    right |= PYTHON | {"secrets": {"token": "present"}}
    assert missing_parts(check_merged(job(right), carries=True), settings) == []
    problems = missing_parts(check_merged(job(right | change), carries=True), settings)
    assert [(each.field, each.rule) for each in problems] == [(field, rule)]


def test_all_missing_parts_are_named(tmp_path: Path) -> None:
    """Of one kind, too."""
    kafka = {"type": "kafka", "topic": "t", "cluster": "moon"}
    change = PYTHON | {
        "package": {"name": "rules", "version": "1"},
        "inputs": {"flights": {"cluster": "us"}},
        "side_outputs": {"a": {"output": kafka}, "b": {"output": {"type": "postgres", "table": "t"}}},
        "secrets": {"one": "x", "two": "y"},
    }
    settings = SETTINGS.model_copy(update={"packages_root": tmp_path, "secrets_root": tmp_path})
    assert [problem.field for problem in missing_parts(check_merged(job(change), carries=True), settings)] == [
        "package",
        "inputs.flights.cluster",
        "side_outputs.a.output.cluster",
        "side_outputs.b.output.connection",
        "secrets.one",
        "secrets.two",
    ]


def test_a_connection_that_the_container_does_not_know_is_told_with_those_that_it_knows() -> None:
    settings = SETTINGS.model_copy(update={"connections": {"reports": "postgresql://u:p@h/d"}})
    config = check_merged(job({"output": POSTGRES | {"connection": "report"}}), carries=True)
    (problem,) = missing_parts(config, settings)
    assert problem.detail.endswith("PENSTOCK_CONNECTIONS; do you mean reports? There are: reports")


def test_a_cluster_that_the_container_does_not_know_is_told_with_those_that_it_knows() -> None:
    """Kafka is not asked then: nobody knows where."""
    settings = SETTINGS.model_copy(update={"kafka_clusters": clusters_of(CLUSTERS)})
    known = check_merged(job({"inputs": {"flights": {"cluster": "eu"}}, "output": {"cluster": "eu"}}), carries=True)
    assert missing_parts(known, settings) == []
    config = check_merged(job({"output": {"cluster": "us"}}), carries=True)
    (problem,) = found_without_spark(config, True, settings=settings).problems
    assert (problem.field, problem.rule) == ("output.cluster", "known_cluster")
    assert problem.detail.endswith("there is no Kafka cluster us in PENSTOCK_KAFKA_CLUSTERS; there are: eu")


def test_each_input_is_looked_for_on_its_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    """The topic is there on the cell's own Kafka, and missing on the other one."""

    def described(kafka: Kafka, topics: Collection[str], **_: object) -> dict[str, Topic]:
        return {name: Topic(8 if kafka.cluster is None else None) for name in topics}

    monkeypatch.setattr("penstock.spark.topics.described", described)
    settings = SETTINGS.model_copy(update={"kafka_clusters": clusters_of(CLUSTERS)})
    there = job()["inputs"]["flights"] | {"cluster": "eu"}
    config = check_merged(job({"inputs": {"others": there}}), carries=True)
    problems = found_without_spark(config, True, settings=settings).problems
    assert [(each.field, each.rule) for each in problems] == [("inputs.others.topic", "topic_exists")]
    assert problems[0].detail == "inputs.others: there is no topic flights@eu"


@pytest.mark.parametrize(
    ("partitions", "has_time", "found"),
    [
        pytest.param(None, True, [("inputs.flights.topic", "topic_exists")], id="no such topic"),
        pytest.param(3, True, [("inputs.flights.key_groups", "key_groups_of_topic")], id="other partitions"),
        pytest.param(64, True, [], id="as declared"),
        pytest.param(None, False, [], id="a write does not wait for Kafka"),
    ],
)
def test_topics_are_looked_at_without_spark(
    partitions: int | None, has_time: bool, found: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def topics(*_: object, **__: object) -> dict[str, Topic]:
        return {"flights": Topic(partitions)}

    monkeypatch.setattr(parts, "input_topics", topics)
    config = check_merged(job({"inputs": {"flights": {"key_groups": 64}}}), carries=True)
    problems = found_without_spark(config, has_time, settings=SETTINGS).problems
    assert [(each.field, each.rule) for each in problems] == found


def test_a_kafka_that_does_not_answer_says_nothing_of_topics_and_the_rest_is_told() -> None:
    config = check_merged(job() | {"package": {"name": "rules", "version": "2"}}, carries=True)
    report = found_without_spark(config, True, settings=SETTINGS)
    assert [each.rule for each in report.problems] == ["package_exists"]
    assert (report.logins, report.unchecked) == ((), ())


def test_a_refused_login_is_told_and_is_no_fault_of_the_job(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object, **__: object) -> None:
        raise Unavailable("kafka refuses the user bob", rule=LOGIN)

    monkeypatch.setattr(parts, "input_topics", refused)
    report = found_without_spark(check_merged(job(), carries=True), True, settings=SETTINGS)
    assert report.problems == ()
    assert report.logins == (Problem("inputs", "kafka_login", "inputs: kafka refuses the user bob"),)
    assert report.unchecked == ("kafka refuses the user bob",)
