"""Samples of topics: one deadline for all of them, and one sample for all that is to be known of a topic."""

from __future__ import annotations

import socket
from time import monotonic
from typing import Any, cast

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from penstock.config.model import Input
from penstock.config.problems import Problem
from penstock.config.validate import check_merged
from penstock.control.errors import Unavailable
from penstock.spark.inputs import key_sample, samples
from penstock.spark.inputs.checks import check_keys, take_samples
from penstock.spark.inputs.key_sample import Sample, SampledKey, sample
from penstock.spark.inputs.samples import ENOUGH_RECORDS, Samples, Wanted
from penstock.spark.topics import Topic

SOURCE = Input.model_validate({"topic": "t", "key_groups": 8, "format": "raw"})


def test_a_broker_that_says_nothing_is_given_up_in_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        began = monotonic()
        with pytest.raises(Unavailable, match="kafka did not give records of t"):
            sample(SOURCE, "t", f"127.0.0.1:{silent.getsockname()[1]}", 0.2)
        assert monotonic() - began < key_sample.START_SECONDS


class SlowBroker:
    """Tells offsets, each after some seconds of a clock that stands otherwise."""

    def __init__(self, seconds: float, newest: int) -> None:
        self.now = 100.0
        self._seconds, self._newest = seconds, newest

    def get_watermark_offsets(self, _place: TopicPartition, timeout: float) -> tuple[int, int]:
        self.now += min(timeout, self._seconds)
        if timeout < self._seconds:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
        return 0, self._newest

    def places(self) -> tuple[list[TopicPartition], bool]:
        return key_sample._places(cast("Any", self), SOURCE, "t", 101.0)


@pytest.mark.parametrize(("seconds", "partitions"), [(0.01, 8), (0.125, 4), (0.3, 1), (0.9, 1)])
def test_a_slow_broker_is_asked_about_fewer_partitions(
    monkeypatch: pytest.MonkeyPatch, seconds: float, partitions: int
) -> None:
    """Half of the time is left for records, unless the first answer takes longer."""
    broker = SlowBroker(seconds, 5)
    monkeypatch.setattr(key_sample, "monotonic", lambda: broker.now)
    places, is_cut = broker.places()
    assert [place.partition for place in places] == list(range(partitions))
    assert is_cut == (partitions < 8)
    assert broker.now <= 100.0 + max(0.5, seconds) + 0.002


def test_a_slow_topic_without_a_known_record_is_not_taken_for_an_empty_one(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = SlowBroker(0.3, 0)
    monkeypatch.setattr(key_sample, "monotonic", lambda: broker.now)
    with pytest.raises(KafkaException):
        broker.places()
    quick = SlowBroker(0.01, 0)
    monkeypatch.setattr(key_sample, "monotonic", lambda: quick.now)
    assert quick.places() == ([], False)


def test_ten_topics_of_a_broker_that_says_nothing_take_the_time_of_one() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        brokers, began = f"127.0.0.1:{silent.getsockname()[1]}", monotonic()
        found = Samples(0.3)
        found.take([Wanted(f"in{at}", SOURCE, "t", brokers) for at in range(10)])
        assert monotonic() - began < 5 * 0.3
    for at, why in (
        (0, "kafka did not give records of t"),
        (9, r"no time was left: the other topics took all 0\.3 s$"),
    ):
        with pytest.raises(
            Unavailable, match=rf"^inputs\.in{at}: the newest records of the topic t were not checked: {why}"
        ):
            found.of(f"in{at}", "t")


RECORDS = [SampledKey(0, b"k", None, b"{}")] * ENOUGH_RECORDS


@pytest.mark.parametrize(
    ("taken", "is_told"),
    [
        (Sample(RECORDS, True), False),
        (Sample(RECORDS[1:]), False),
        (Sample([]), False),
        (Sample(RECORDS[1:], True), True),
    ],
)
def test_a_few_records_of_a_sample_that_was_cut_short_are_none(
    monkeypatch: pytest.MonkeyPatch, taken: Sample, is_told: bool
) -> None:
    """Of a topic that has no more they are all there is."""
    monkeypatch.setattr(samples, "sample", lambda *_: taken)
    monkeypatch.setattr(samples, "monotonic", lambda: 100.0)
    found = Samples(2.0)
    found.take([Wanted("events", SOURCE, "t", "b")])
    if is_told:
        with pytest.raises(Unavailable, match=r"topic t were not checked: kafka sent only 15 within 2 s$"):
            found.of("events", "t")
    else:
        assert found.of("events", "t") == taken.records


@pytest.mark.parametrize(
    ("within_seconds", "why"),
    [
        (0.0, "no time was left"),
        (-3.0, "no time was left"),
        (0.004, "no time was left"),
        (0.034, "no time was left: the other topics took all 0.034 s"),
        (2.44, "no time was left: the other topics took all 2.4 s"),
        (123.4, "no time was left: the other topics took all 123 s"),
    ],
)
def test_that_no_time_was_left_is_told_with_a_time_that_is_not_0(
    monkeypatch: pytest.MonkeyPatch, within_seconds: float, why: str
) -> None:
    clock = iter([100.0, 300.0])
    monkeypatch.setattr(samples, "monotonic", lambda: next(clock))
    found = Samples(within_seconds)
    found.take([Wanted("events", SOURCE, "t", "b")])
    with pytest.raises(Unavailable) as failure:
        found.of("events", "t")
    assert failure.value.detail == f"inputs.events: the newest records of the topic t were not checked: {why}"


def test_what_a_slow_broker_did_not_give_leaves_the_other_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    """1. Each topic is sampled once, with what is left of the time. 2. The keys of the one are judged, of the other it
    is said that they were not checked."""
    keys = [SampledKey(0, str(number).encode(), None) for number in range(20)]
    asked: list[tuple[str, bool]] = []

    def slow(_source: Input, topic: str, _brokers: Any, within_seconds: float) -> Sample:
        asked.append((topic, 0 < within_seconds <= 2.0))
        return Sample([], True) if topic == "slow" else Sample(keys)

    monkeypatch.setattr(samples, "sample", slow)
    monkeypatch.setattr(samples, "monotonic", lambda: 100.0)
    source = {"key_groups": 8, "value_schema": "k STRING", "key_columns": ["k"], "key_function": "kafka"}
    given: dict[str, Any] = {
        "query": {"sql": "SELECT k FROM slow"},
        "inputs": {name: {"topic": name, **source} for name in ("slow", "quick")},
        "output": {"type": "kafka", "topic": "out"},
    }
    config, topics = check_merged(given), {name: Topic(8) for name in ("slow", "quick")}
    of = (config, lambda _: "b", topics, ())
    found = Samples(2.0)
    take_samples(*of, found, decodes=True)
    assert sorted(asked) == [("quick", True), ("slow", True)]
    not_checked, problem = check_keys(*of, cast("Any", None), found)
    assert isinstance(not_checked, Unavailable)
    assert not_checked.detail == (
        "inputs.slow: the newest records of the topic slow were not checked: kafka sent none within 2 s"
    )
    assert isinstance(problem, Problem)
    assert (problem.field, problem.rule) == ("inputs.quick.key_function", "key_function_of_producer")
