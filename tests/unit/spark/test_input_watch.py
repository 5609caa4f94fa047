"""The look at inputs of running tasks, where they are on several Kafka clusters."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, cast

import pytest

from penstock.config.model import Input
from penstock.control.clock import SystemClock
from penstock.control.errors import BrokenTask, Unavailable
from penstock.kafka.access import Kafka
from penstock.spark.inputs.watch import InputWatch
from penstock.spark.topics import Topic
from penstock.tasks.spec import TaskSpec
from tests.support.spark.hosts import job_config, task_spec


def on(cluster: str | None) -> TaskSpec:
    config = job_config("orders", 4, {"type": "files", "path": "/out"}, source={"cluster": cluster})
    return task_spec(f"of-{cluster or 'own'}", config)


def clusters(name: str | None) -> Kafka:
    if name == "gone":
        raise BrokenTask("there is no Kafka cluster gone")
    return Kafka("k:1", cluster=name)


def test_a_cluster_that_does_not_answer_hides_nothing_of_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """The topic of one name has grown on `eu` only. Of a cluster that is away, or not known any more, nothing is said:
    neither that all is well nor that it is not."""

    def described(kafka: Kafka, topics: Collection[str], **_: object) -> dict[str, Topic]:
        if kafka.cluster == "away":
            raise Unavailable("kafka does not answer")
        return {topic: Topic(6 if kafka.cluster == "eu" else 4) for topic in topics}

    monkeypatch.setattr("penstock.spark.topics.described", described)
    watch = InputWatch(cast(Any, None), clusters, SystemClock())
    found = watch.check([on(None), on("eu"), on("away"), on("gone")])
    assert found.keys() == {"of-own/0", "of-eu/0"}
    assert found["of-own/0"] == {}
    assert "the topic orders@eu has 6 partitions" in found["of-eu/0"]["partitions_not_read"]


GONE = Topic(None, instead="there is order")
DENIED = Topic(None, may_read=False)
OWN = Topic(4, id="1")


@pytest.mark.parametrize(
    ("now", "told"),
    [
        (OWN, None),
        (GONE, "inputs.events: there is no topic orders"),
        (DENIED, "inputs.events: the hosts' account may not read the topic orders: grant it READ"),
        (OWN._replace(may_read=False), "inputs.events: the hosts' account may not read the topic orders"),
        (OWN._replace(id="2"), "inputs.events: the topic orders was deleted and made again. The job's offsets"),
        (OWN._replace(id=None), None),
    ],
    ids=["there", "deleted", "not described", "not read", "made again", "an unknown id"],
)
def test_a_topic_that_a_running_task_cannot_read_on_is_told_until_it_is_back(
    monkeypatch: pytest.MonkeyPatch, now: Topic, told: str | None
) -> None:
    """1. The topic is as `now`, which is not told yet. 2. Kafka does not answer: nothing is said of the task. 3. The
    topic is so still: now it is told. 4. It is as it was."""
    answers: list[Topic | None] = [now, None, now, OWN]

    def described(_: Kafka, topics: Collection[str], **__: object) -> dict[str, Topic]:
        answer = answers.pop(0)
        if answer is None:
            raise Unavailable("kafka does not answer")
        return dict.fromkeys(topics, answer)

    monkeypatch.setattr("penstock.spark.topics.described", described)
    monkeypatch.setattr("penstock.spark.inputs.topic_checks.listed", lambda *_, **__: frozenset({"order"}))
    watch = InputWatch(cast(Any, None), clusters, SystemClock())
    task, begun = on(None), {"of-own/0": {"orders": OWN}}
    assert watch.check([task], begun) == {"of-own/0": {}}
    assert watch.wait_seconds(60.0) == (60.0 if told is None else 10.0)
    assert watch.check([task], begun) == {}
    found = watch.check([task], begun)["of-own/0"]
    assert watch.wait_seconds(60.0) == 60.0
    assert list(found) == ([] if told is None else ["input_unreadable"])
    assert found.get("input_unreadable", "").startswith(told or "")
    assert watch.check([task], begun) == {"of-own/0": {}}


def test_a_topic_that_one_answer_does_not_know_is_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that just started may not know it yet. 1. So it is, twice, with a good answer between. 2. A task that
    went and came is looked at anew."""
    answers = [GONE, OWN, GONE, OWN, GONE, GONE]
    monkeypatch.setattr(
        "penstock.spark.topics.described", lambda _, topics, **__: dict.fromkeys(topics, answers.pop(0))
    )
    monkeypatch.setattr("penstock.spark.inputs.topic_checks.listed", lambda *_, **__: frozenset({"order"}))
    watch = InputWatch(cast(Any, None), clusters, SystemClock())
    for _ in range(5):
        assert watch.check([on(None)]) == {"of-own/0": {}}
    assert watch.check([]) == {}
    assert watch.check([on(None)]) == {"of-own/0": {}}


def test_topics_of_a_pattern_that_jobs_write_are_told_of_a_running_task(monkeypatch: pytest.MonkeyPatch) -> None:
    timed = {"topic": None, "topic_pattern": "orders|pays", "event_time_column": "at", "watermark_delay": "1 minute"}
    config = job_config("x", 4, {"type": "files", "path": "/out"}, source=timed)
    monkeypatch.setattr("penstock.spark.topics.described", lambda _, topics, **__: dict.fromkeys(topics, Topic(4)))
    there = {"orders", "pays", "pays.penstock-marks"}
    monkeypatch.setattr("penstock.spark.inputs.topic_checks.listed", lambda *_, **__: frozenset(there))
    found = InputWatch(cast(Any, None), clusters, SystemClock()).check([task_spec("j", config)])
    assert "jobs write pays, and" in found["j/0"]["not_awaited"]


def test_keys_are_sampled_anew_with_other_options_of_csv(monkeypatch: pytest.MonkeyPatch) -> None:
    """The options decide what the keys are."""
    sampled: list[str] = []

    def problem(_: str, source: Input, *__: object) -> None:
        sampled.append(source.csv.delimiter)

    monkeypatch.setattr("penstock.spark.inputs.watch.key_function_problem", problem)
    monkeypatch.setattr("penstock.spark.topics.described", lambda *_, **__: {"orders": Topic(4)})
    watch = InputWatch(cast(Any, None), clusters, SystemClock())
    for delimiter in (",", ";", ";"):
        keyed = {"format": "csv", "key_columns": ["a"], "key_function": "kafka", "csv": {"delimiter": delimiter}}
        config = job_config("orders", 4, {"type": "files", "path": "/out"}, source=keyed)
        watch.check([task_spec("j", config)])
    assert sampled == [",", ";"]
