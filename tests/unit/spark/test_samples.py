"""Samples of topics: one deadline for all partitions, and one sample for all that is to be known of a topic."""

from __future__ import annotations

import socket
from time import monotonic
from typing import Any, cast

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from penstock.config.model import Input
from penstock.control.errors import Unavailable
from penstock.spark.inputs import key_sample
from penstock.spark.inputs.key_sample import SampledKey, Samples, sample

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

    def places(self) -> list[TopicPartition]:
        return key_sample._places(cast("Any", self), SOURCE, "t", 101.0)


@pytest.mark.parametrize(("seconds", "partitions"), [(0.01, 8), (0.125, 4), (0.3, 1), (0.9, 1)])
def test_a_slow_broker_is_asked_about_fewer_partitions(
    monkeypatch: pytest.MonkeyPatch, seconds: float, partitions: int
) -> None:
    """Half of the time is left for records, unless the first answer takes longer."""
    broker = SlowBroker(seconds, 5)
    monkeypatch.setattr(key_sample, "monotonic", lambda: broker.now)
    assert [place.partition for place in broker.places()] == list(range(partitions))
    assert broker.now <= 100.0 + max(0.5, seconds) + 0.002


def test_a_slow_topic_without_a_known_record_is_not_taken_for_an_empty_one(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = SlowBroker(0.3, 0)
    monkeypatch.setattr(key_sample, "monotonic", lambda: broker.now)
    with pytest.raises(KafkaException):
        broker.places()
    quick = SlowBroker(0.01, 0)
    monkeypatch.setattr(key_sample, "monotonic", lambda: quick.now)
    assert quick.places() == []


def test_keys_and_records_are_judged_by_one_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[tuple[str, float]] = []

    def counted(_source: Input, topic: str, _brokers: Any, within_seconds: float) -> list[SampledKey]:
        taken.append((topic, within_seconds))
        return []

    monkeypatch.setattr(key_sample, "sample", counted)
    samples = Samples(1.5)
    for topic in ("t", "t", "u"):
        assert samples.of("events", SOURCE, topic, "b") == []
    assert taken == [("t", 1.5), ("u", 1.5)]
