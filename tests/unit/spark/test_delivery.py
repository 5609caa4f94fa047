"""A record counts as written when Kafka has said so: wherever records are sent."""

from __future__ import annotations

import io
from collections.abc import Callable
from contextlib import nullcontext

import pytest
from confluent_kafka import KafkaError, KafkaException

from penstock.control.errors import Unavailable, UserError
from penstock.local import class_archive, records
from penstock.local.demo.feed import Feed
from penstock.spark import delivery
from penstock.spark.delivery import CheckedProducer
from tests.support.kafka.refusing import RefusingProducer


@pytest.fixture(autouse=True)
def _refusing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery, "Producer", RefusingProducer)
    monkeypatch.setattr(RefusingProducer, "calls", [])


@pytest.mark.parametrize(
    "send",
    [
        lambda: class_archive._produce("here"),
        lambda: Feed("here", 1.0).start(),
        lambda: Feed("here", 1.0).close(),
        lambda: records.produce("here", "rows", 1, io.StringIO("{}"), records.json_lines()),
    ],
    ids=["class archive", "demo", "end of the demo", "topics produce"],
)
def test_a_record_that_is_refused_is_not_taken_for_written(send: Callable[[], object]) -> None:
    with pytest.raises(Unavailable, match=r"did not take \d+ of \d+ records: .*timed out"):
        send()


@pytest.mark.parametrize(
    ("lines", "error", "calls"),
    [
        ('{"n": 1}\n{"n": 2}\n', None, ["init", "begin", "send", "send", "commit"]),
        ('{"n": 1}\n{"m": 2}\n', UserError, []),
        ("\n", None, []),
    ],
    ids=["all", "a line without the key", "no line"],
)
def test_lines_of_a_file_are_sent_all_or_none(
    lines: str, error: type[Exception] | None, calls: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RefusingProducer, "code", None)
    with pytest.raises(error) if error else nullcontext():
        records.produce("here", "rows", 1, io.StringIO(lines), records.json_lines(["n"]))
    assert RefusingProducer.calls == calls
    assert not calls or RefusingProducer.settings["transaction.timeout.ms"] == 60_000


def test_a_refused_record_takes_back_those_before_it() -> None:
    with pytest.raises(Unavailable):
        records.produce("here", "rows", 1, io.StringIO("{}\n{}\n"), records.json_lines())
    assert RefusingProducer.calls == ["init", "begin", "send", "send", "abort"]


def test_an_unconfirmed_transaction_says_where_to_look_before_it_is_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RefusingProducer, "code", None)
    monkeypatch.setattr(RefusingProducer, "unconfirmed", True)
    look = "All records were sent, or none. Look before you repeat it: `penstock topics consume rows --from-beginning`"
    with pytest.raises(Unavailable, match=look):
        records.produce("here", "rows", 1, io.StringIO("{}\n"), records.json_lines())
    assert RefusingProducer.calls == ["init", "begin", "send", "commit"]


def test_records_that_find_no_room_are_sent_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RefusingProducer, "full", 2)
    monkeypatch.setattr(RefusingProducer, "code", KafkaError.TOPIC_AUTHORIZATION_FAILED)
    producer = CheckedProducer({}, 5.0)
    producer.send("rows", "1")
    lost = producer.lost()
    assert lost is not None
    assert (lost.records, lost.of, lost.error and lost.error.code()) == (1, 1, KafkaError.TOPIC_AUTHORIZATION_FAILED)


def test_records_without_an_answer_are_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RefusingProducer, "produce", lambda *_, **__: None)
    monkeypatch.setattr(RefusingProducer, "flush", lambda *_: 3)
    with pytest.raises(Unavailable, match="kafka did not take 3 of 0 records: not confirmed within 5 s"):
        CheckedProducer({}, 5.0).require_taken("kafka")


def test_a_record_that_is_too_large_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kafka's client does not even take it."""

    def refuse(*_: object, **__: object) -> None:
        raise KafkaException(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE))

    monkeypatch.setattr(RefusingProducer, "produce", refuse)
    producer = CheckedProducer({}, 5.0)
    producer.send("rows", "1")
    with pytest.raises(Unavailable, match=r"kafka did not take 1 of 1 records: .*[Mm]essage size too large"):
        producer.require_taken("kafka")


def test_a_record_that_is_told_as_lost_is_not_sent_later() -> None:
    """Kafka's client gives it up before the answer is no longer waited for, with any settings."""
    CheckedProducer({"message.timeout.ms": 300_000}, 5.0).lost()
    assert RefusingProducer.settings["message.timeout.ms"] == 5000
    assert RefusingProducer.waited > 5.0
