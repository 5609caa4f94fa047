"""The topics of a pattern, as the brokers have them: which a job reads, and what is wrong with them."""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Uuid

from penstock.config.model import JobConfig
from penstock.control.errors import BrokenTask, Unavailable
from penstock.kafka.access import Kafka
from penstock.model.alerts import UNREADABLE_INPUT
from penstock.spark.checkpoint import topics_in_offsets
from penstock.spark.files import LOCAL_FILES
from penstock.spark.inputs.identity import note_topics, notes_in, require_same_topics
from penstock.spark.inputs.task_topics import take_topics, task_topics
from penstock.spark.inputs.topic_checks import input_topics, late_producer_problems, some_of, topic_problems
from penstock.spark.topics import Topic, id_text
from tests.support.spark.hosts import job_config

FIELD = "inputs.events.topic_pattern"


def reading(pattern: str = "orders-.*", **source: Any) -> JobConfig:
    fields = {"topic": None, "topic_pattern": pattern, **source}
    return job_config("x", 4, {"type": "files", "path": "/out"}, source=fields)


def clusters(name: str | None) -> Kafka:
    return Kafka("k:1", cluster=name)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the broker was asked for. It has orders-a, orders-b of 4 partitions, and other topics."""
    told: list[str] = []

    def listed(kafka: Kafka, **_: object) -> frozenset[str]:
        told.append(f"all of {kafka.cluster}")
        return frozenset({"orders-a", "orders-b", "other", "__orders-c", "orders-a.penstock-marks"})

    def described(_: Kafka, topics: Collection[str], **__: object) -> dict[str, Topic]:
        told.extend(sorted(topics))
        return {topic: Topic(4, id=f"id-{topic}") for topic in topics}

    monkeypatch.setattr("penstock.spark.inputs.topic_checks.listed", listed)
    monkeypatch.setattr("penstock.spark.topics.described", described)
    return told


@pytest.mark.parametrize(
    ("now", "matches"),
    [
        (Topic(None), True),
        (Topic(None, instead="there are: order"), True),
        (Topic(None, may_read=False), True),
        (Topic(4, may_read=False), True),
        (Topic(5), False),
    ],
)
def test_errors_about_a_topic_that_cannot_be_read_are_known_by_their_beginning(now: Topic, matches: bool) -> None:
    config = job_config("orders", 4, {"type": "files", "path": "/out"})
    (problem,) = topic_problems(config, {"orders": now})
    assert (re.match(UNREADABLE_INPUT, problem.detail) is not None) is matches


def test_so_are_errors_about_a_topic_that_was_made_again_or_that_no_pattern_finds(tmp_path: Path) -> None:
    note_topics(LOCAL_FILES, str(tmp_path), {"orders": Topic(4, id="1")})
    with pytest.raises(BrokenTask) as refused:
        require_same_topics(LOCAL_FILES, str(tmp_path), {"orders": Topic(4, id="2")})
    assert re.match(UNREADABLE_INPUT, refused.value.detail)
    (problem,) = topic_problems(reading(), {})
    assert re.match(UNREADABLE_INPUT, problem.detail)
    assert not re.match(UNREADABLE_INPUT, "query: there is no topic x")


def test_a_pattern_over_topics_of_jobs_needs_a_word_where_rows_can_be_late(asked: list[str]) -> None:
    """Of the topics that match, jobs write orders-a, as its marks show; nothing is said of a task's own offsets, for
    which the broker does not list its topics."""
    timed = {"event_time_column": "at", "watermark_delay": "10 seconds"}
    config = reading(**timed)
    (problem,) = late_producer_problems(config, input_topics(config, clusters))
    assert (problem.field, problem.rule) == ("inputs.events.allow_late_producers", "late_producers")
    assert "jobs write orders-a, and" in problem.detail
    for said in ({}, {**timed, "allow_late_producers": True}, {**timed, "excluded_topics": ("orders-a",)}):
        config = reading(**said)
        assert list(late_producer_problems(config, input_topics(config, clusters))) == []


def test_all_topics_of_a_pattern_are_asked_for_and_of_a_task_those_that_it_reads(asked: list[str]) -> None:
    assert input_topics(reading(cluster="eu"), clusters).keys() == {"orders-a@eu", "orders-b@eu"}
    assert asked == ["all of eu", "orders-a", "orders-b"]
    asked.clear()
    known = ["orders-a", "orders-gone", "orders-x", "orders-a@eu"]
    found = input_topics(reading(excluded_topics=("orders-x",)), clusters, known=known)
    assert found.keys() == {"orders-a", "orders-gone"}
    assert asked == ["orders-a", "orders-gone"]


def test_a_missing_topic_is_told_with_those_that_it_may_mean(monkeypatch: pytest.MonkeyPatch, asked: list[str]) -> None:
    config = job_config("x", 4, {"type": "files", "path": "/out"}, source={"topic": "order-a", "cluster": "eu"})
    monkeypatch.setattr("penstock.spark.topics.described", lambda _, topics, **__: dict.fromkeys(topics, Topic(None)))
    (problem,) = topic_problems(config, input_topics(config, clusters))
    told = "there is no topic order-a@eu; do you mean orders-a or orders-b? There are: orders-a, orders-b, other"
    assert (problem.field, problem.rule) == ("inputs.events.topic", "topic_exists")
    assert problem.detail.endswith(told)
    assert asked == ["all of eu"]


def test_a_broker_that_lists_no_topics_says_nothing_about_a_missing_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(*_: object, **__: object) -> frozenset[str]:
        raise Unavailable("not now")

    config = job_config("x", 4, {"type": "files", "path": "/out"}, source={"topic": "order-a"})
    monkeypatch.setattr("penstock.spark.topics.described", lambda _, topics, **__: dict.fromkeys(topics, Topic(None)))
    monkeypatch.setattr("penstock.spark.inputs.topic_checks.listed", refuses)
    (problem,) = topic_problems(config, input_topics(config, clusters))
    assert problem.detail.endswith("there is no topic order-a")


@pytest.mark.parametrize(
    ("topics", "rule", "told"),
    [
        ({}, "topic_exists", "no topic matches orders-.*"),
        ({"orders-a": Topic(4), "orders-b": Topic(3)}, "key_groups_of_topic", "orders-b has 3 partitions"),
        ({"orders-a": Topic(4), "orders-b": Topic(None)}, "topic_is_there", "orders-b, which the pattern matched, was"),
        ({"orders-a": Topic(4, may_read=False)}, "topic_readable", "orders-a may not be read"),
        ({"orders-a": Topic(4), "other": Topic(9)}, None, ""),
    ],
)
def test_each_topic_is_named_that_cannot_be_read(topics: dict[str, Topic], rule: str | None, told: str) -> None:
    problems = list(topic_problems(reading(), topics))
    assert [(problem.field, problem.rule) for problem in problems] == ([] if rule is None else [(FIELD, rule)])
    assert all(told in problem.detail for problem in problems)


def test_a_topic_of_two_patterns_is_refused_and_one_pattern_may_be_read_twice() -> None:
    """Offsets in a checkpoint do not say whose a topic is. A join of an input with itself is no such case."""
    config = reading()
    (events,) = config.inputs.values()
    other = events.model_copy(update={"topic_pattern": ".*-b"})
    both = config.model_copy(update={"inputs": {"events": events, "other": other, "again": events}})
    there = {name: Topic(4) for name in ("orders-a", "orders-b", "x-b")}
    problems = list(topic_problems(both, there))
    assert {problem.rule for problem in problems} == {"topic_of_one_input"}
    assert all("the topic orders-b is of inputs." in problem.detail for problem in problems)
    del there["orders-b"]
    assert list(topic_problems(both, there)) == []


def test_a_few_topics_stand_for_many() -> None:
    assert some_of([]) == []
    assert some_of(["a", "b"]) == ["a", "b"]
    assert some_of([str(number) for number in range(10)]) == ["0", "3", "6", "9"]
    assert len(some_of([str(number) for number in range(999)])) == 4


def batch(folder: Path, number: int, line: str) -> None:
    for log, text in (("offsets", f"v1\n{{}}\n{line}"), ("commits", "v1\n{}")):
        (folder / log).mkdir(exist_ok=True)
        (folder / log / str(number)).write_text(text)


@pytest.mark.usefixtures("asked")
def test_a_start_looks_at_the_topics_of_the_checkpoint_and_forgets_the_notes_of_others(tmp_path: Path) -> None:
    """1. Before the first batch all topics count. 2. Then those of the checkpoint, whether they are there or not. 3. An
    excluded one is forgotten once a batch has left it out, not before."""
    checkpoint = str(tmp_path)
    config = reading()
    assert task_topics(config, clusters, LOCAL_FILES, checkpoint).keys() == {"orders-a", "orders-b"}
    batch(tmp_path, 0, '{"orders-a":{"0":1},"orders-b":{"0":1}}')
    found = task_topics(config, clusters, LOCAL_FILES, checkpoint)
    assert found.keys() == {"orders-a", "orders-b"}
    take_topics(config, LOCAL_FILES, checkpoint, found)
    without = reading(excluded_topics=("orders-b",))
    only = task_topics(without, clusters, LOCAL_FILES, checkpoint)
    assert only.keys() == {"orders-a"}
    take_topics(without, LOCAL_FILES, checkpoint, only)
    assert len(notes_in(LOCAL_FILES, checkpoint)) == 2
    batch(tmp_path, 1, '{"orders-a":{"0":2}}')
    take_topics(without, LOCAL_FILES, checkpoint, only)
    (note,) = notes_in(LOCAL_FILES, checkpoint)
    assert note.endswith("-id-orders-a")


@pytest.mark.usefixtures("asked")
def test_offsets_of_a_topic_that_no_pattern_matches_are_not_passed_over(tmp_path: Path) -> None:
    """As of a savepoint of a job with another pattern."""
    batch(tmp_path, 0, '{"orders-a":{"0":1},"payments":{"0":1}}')
    with pytest.raises(BrokenTask, match="the job has read payments, which no topic_pattern matches"):
        task_topics(reading(), clusters, LOCAL_FILES, str(tmp_path))
    both = reading("orders-.*|payments", excluded_topics=("payments",))
    assert task_topics(both, clusters, LOCAL_FILES, str(tmp_path)).keys() == {"orders-a"}


def test_the_topics_of_a_planned_batch_count_as_those_of_the_last_finished_one(tmp_path: Path) -> None:
    """The next start repeats it: it takes orders-b in, and orders-c out."""
    batch(tmp_path, 0, '{"orders-a":{"0":1},"orders-c":{"0":1}}')
    batch(tmp_path, 1, '{"orders-a":{"0":1},"orders-b":{"0":0}}')
    assert topics_in_offsets(str(tmp_path), LOCAL_FILES) == {"orders-a", "orders-b"}
    (tmp_path / "commits" / "1").unlink()
    assert topics_in_offsets(str(tmp_path), LOCAL_FILES) == {"orders-a", "orders-b", "orders-c"}
    (tmp_path / "commits" / "0").unlink()
    assert topics_in_offsets(str(tmp_path), LOCAL_FILES) == {"orders-a", "orders-b"}


def test_the_source_notes_topics_as_a_start_does(tmp_path: Path) -> None:
    """`KnownTopicsTest` has the same name of a file."""
    note_topics(LOCAL_FILES, str(tmp_path), {"orders-a@eu": Topic(4, id=id_text(Uuid(1, -1)))})
    assert notes_in(LOCAL_FILES, str(tmp_path)) == [
        "TOPIC-bdbd667de809c6b3113a68823b341835-0000000000000001ffffffffffffffff"
    ]
