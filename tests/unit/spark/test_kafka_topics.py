"""What a sink tells Kafka: a topic is there when it was made, and a record that was refused was not written."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

import pytest
from confluent_kafka import KafkaError

from penstock.control.errors import Unavailable
from penstock.spark import delivery
from penstock.spark.sinks import kafka
from penstock.spark.topics import Topic
from tests.support.kafka.refusing import RefusingProducer

MISSING, THERE = Topic(None), Topic(1)


def answers(monkeypatch: pytest.MonkeyPatch, *topics: Topic) -> list[Topic]:
    """What Kafka says of a topic each time that it is asked; returns what it has not said yet."""
    left = list(topics)
    monkeypatch.setattr(kafka, "described", lambda _, names: {name: left.pop(0) for name in names})
    return left


class Admin:
    """Makes each topic at once."""

    def create_topics(self, topics: list[Any], **_: object) -> dict[str, Future[None]]:
        done: Future[None] = Future()
        done.set_result(None)
        return {topic.topic: done for topic in topics}


def test_a_new_topic_is_there_for_the_next_question(monkeypatch: pytest.MonkeyPatch) -> None:
    """1. It is missing. 2. It is made. 3. A broker that has not heard of it yet is asked again."""
    left = answers(monkeypatch, MISSING, MISSING, MISSING, THERE)
    monkeypatch.setattr(kafka, "admin", lambda _: Admin())
    kafka.ensure_topic("here", "rows", 1)
    assert left == []


def test_a_last_mark_that_was_refused_is_not_taken_for_written(monkeypatch: pytest.MonkeyPatch) -> None:
    answers(monkeypatch, THERE)
    monkeypatch.setattr(delivery, "Producer", RefusingProducer)
    with pytest.raises(Unavailable, match=r"last mark of sums in rows\.penstock-marks"):
        kafka.end_marks("here", "rows", "sums", 3)


def test_a_last_mark_that_is_denied_does_not_keep_checkpoints_for_ever(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answers(monkeypatch, THERE)
    monkeypatch.setattr(RefusingProducer, "code", KafkaError.TOPIC_AUTHORIZATION_FAILED)
    monkeypatch.setattr(delivery, "Producer", RefusingProducer)
    kafka.end_marks("here", "rows", "sums", 3)
    assert "grant WRITE" in capsys.readouterr().out
