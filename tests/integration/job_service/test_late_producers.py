"""Readers with event time of topics that are written at least once: told before rows are late."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.control.errors import InvalidConfig
from penstock.wire.job_client import JobClient
from tests.support.job_service.service import CONFIG

TIMED = {"value_schema": "dest STRING, at TIMESTAMP", "event_time_column": "at", "watermark_delay": "1 minute"}


def job(reads: dict[str, Any], writes: str, **output: Any) -> dict[str, Any]:
    source = {"key_groups": 8, "value_schema": "origin STRING, dest STRING", **reads}
    return {**CONFIG, "inputs": {"flights": source}, "output": {"type": "kafka", "topic": writes, **output}}


WRITER = job({"topic": "flights"}, "clean", delivery="at_least_once")
READERS = [{"topic": "clean"}, {"topic_pattern": "clean|other"}]


@pytest.mark.parametrize("source", READERS, ids=["topic", "pattern"])
def test_a_reader_of_what_is_written_at_least_once_needs_a_word(client: JobClient, source: dict[str, Any]) -> None:
    """1. Refused by the write and by its plan, which name the writer. 2. Without event time it is accepted, and refused
    when it gets one. 3. With the word it is accepted, and so are its later writes."""
    client.put_job("writer", WRITER)
    for ask in (client.put_job, client.plan):
        with pytest.raises(
            InvalidConfig, match=r"writer writes clean.* at least once.* watermark of reader"
        ) as refused:
            ask("reader", job({**source, **TIMED}, "counts"))
        assert (refused.value.field, refused.value.rule) == ("inputs.flights.allow_late_producers", "late_producers")
    client.put_job("reader", job(source, "counts"))
    with pytest.raises(InvalidConfig, match="at least once"):
        client.put_job("reader", job({**source, **TIMED}, "counts"))
    client.put_job("reader", job({**source, **TIMED, "allow_late_producers": True}, "counts"))
    client.put_job("reader", job({**source, **TIMED, "allow_late_producers": True}, "others"))
    assert client.get_job("reader").config["output"]["topic"] == "others"


@pytest.mark.parametrize("source", READERS, ids=["topic", "pattern"])
def test_a_writer_to_readers_with_event_time_stays_exactly_once(client: JobClient, source: dict[str, Any]) -> None:
    """1. It is exactly once, and has such a reader. 2. At least once is refused, also for a new job, by the name of the
    reader. 3. A job that is so already can be written, and stopped."""
    client.put_job("writer", job({"topic": "flights"}, "clean"))
    client.put_job("reader", job({**source, **TIMED}, "counts"))
    for name in ("writer", "second"):
        with pytest.raises(InvalidConfig, match="watermark of reader does not wait") as refused:
            client.put_job(name, WRITER)
        assert (refused.value.field, refused.value.rule) == ("output.delivery", "late_producers")
    assert client.get_job("writer").config["output"]["delivery"] == "exactly_once"


def test_what_an_earlier_release_accepted_can_be_changed_and_stopped(client: JobClient, service: Any) -> None:
    client.put_job("writer", WRITER)
    client.put_job("reader", job({"topic": "clean", **TIMED, "allow_late_producers": True}, "counts"))
    client.put_job("reader", job({"topic": "clean", **TIMED, "allow_late_producers": True}, "more"))
    with service.engine.begin() as connection:
        connection.exec_driver_sql(
            "UPDATE expected_configs SET config = config #- '{inputs,flights,allow_late_producers}'"
        )
    client.put_job("reader", {**job({"topic": "clean", **TIMED}, "third"), "desired_state": "stopped"})
    assert client.get_job("reader").config["output"]["topic"] == "third"
