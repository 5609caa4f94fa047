"""Readers with event time of topics that are written at least once, or without an event time: told before rows are
late."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from penstock.control.errors import InvalidConfig
from penstock.wire.job_client import JobClient
from penstock.wire.jobs import BatchAction, BatchWrite
from tests.support.job_service.service import CONFIG
from tests.support.state_syncer.cell import Cell

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
    client.put_job("writer", job({"topic": "flights", **TIMED}, "clean"))
    client.put_job("reader", job({**source, **TIMED}, "counts"))
    for name in ("writer", "second"):
        with pytest.raises(InvalidConfig, match="watermark of reader does not wait") as refused:
            client.put_job(name, job({"topic": "flights", **TIMED}, "clean", delivery="at_least_once"))
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


UNTIMED = job({"topic": "flights"}, "clean")
READER = job({"topic": "clean", **TIMED}, "counts")


def test_a_reader_of_a_job_without_event_time_needs_a_word(client: JobClient) -> None:
    """1. Its write and its plan are refused, and name what the writer lacks. 2. With the word it is accepted. 3. So it
    is when the writer has an event time, and then the writer may not lose it. 4. Nor may a second one come that has
    none."""
    client.put_job("writer", UNTIMED)
    for ask in (client.put_job, client.plan):
        with pytest.raises(InvalidConfig, match="writer writes clean and knows no event time") as refused:
            ask("reader", READER)
        assert (refused.value.field, refused.value.rule) == ("inputs.flights.allow_late_producers", "late_producers")
        assert "Set event_time_column and watermark_delay of the inputs of writer" in refused.value.detail
    client.put_job("other", job({"topic": "clean", **TIMED, "allow_late_producers": True}, "others"))
    client.put_job("writer", job({"topic": "flights", **TIMED}, "clean"))
    client.put_job("reader", READER)
    for name in ("writer", "second"):
        with pytest.raises(InvalidConfig, match=rf"{name} writes clean .* watermark of reader") as refused:
            client.put_job(name, UNTIMED)
        assert (refused.value.field, refused.value.rule) == ("inputs", "late_producers")


def test_a_job_passes_on_the_event_time_of_those_before_it(client: JobClient) -> None:
    """first > middle > reader, of which middle has no event time of its own. 1. With that of first the reader is
    accepted. 2. Then first may not lose it, and a second writer without it may not come before middle."""
    first, middle = job({"topic": "flights", **TIMED}, "raw"), job({"topic": "raw"}, "clean")
    client.put_job("middle", middle)
    with pytest.raises(InvalidConfig, match="middle writes clean and knows no event time"):
        client.put_job("reader", READER)
    client.put_job("first", first)
    client.put_job("reader", READER)
    for name in ("first", "second"):
        with pytest.raises(InvalidConfig, match=r"middle writes clean .* watermark of reader") as refused:
            client.put_job(name, job({"topic": "flights"}, "raw"))
        assert refused.value.field == "inputs"
    client.put_job("second", job({"topic": "trains", **TIMED}, "raw"))


def test_a_job_that_passes_event_time_on_may_not_get_it_from_where_there_is_none(client: JobClient) -> None:
    for name, reads, topic in (("first", TIMED, "raw"), ("untimed", {}, "other")):
        client.put_job(name, job({"topic": "flights", **reads}, topic))
    client.put_job("middle", job({"topic": "raw"}, "clean"))
    client.put_job("reader", READER)
    with pytest.raises(InvalidConfig, match=r"middle writes clean .* watermark of reader"):
        client.put_job("middle", job({"topic": "other"}, "clean"))


def test_a_job_may_go_back_to_what_it_still_runs(client: JobClient, cell: Cell) -> None:
    """1. A job runs without event time, and is to get one. Until it has, its readers wait for nothing new. 2. So it may
    go back, in a batch too. 3. What it does not run it may not go to."""
    client.put_job("writer", UNTIMED)
    cell.rounds(2)
    client.put_job("writer", job({"topic": "flights", **TIMED}, "clean"))
    client.put_job("reader", READER)
    with pytest.raises(InvalidConfig, match="at least once"):
        client.put_job("writer", WRITER)
    assert _batched(client, ("writer",), (UNTIMED,)) == [None]


def test_a_package_that_worked_comes_back_whoever_reads_the_job(client: JobClient) -> None:
    own_time = {"sql": "SELECT origin, dest, current_date() AS watermark FROM flights"}
    client.put_job("writer", {**UNTIMED, "query": own_time})
    client.put_job("reader", READER)
    client.put_layer("writer", "rollback", {"query": UNTIMED["query"]}, if_match=0)
    assert client.get_job("writer").config["query"]["sql"] == UNTIMED["query"]["sql"]


def test_jobs_of_one_batch_are_seen_together(client: JobClient) -> None:
    """1. Of a chain without event time at its beginning those that meet are refused, in the batch that makes all.
    2. With it all are accepted, in any order."""
    names, middle = ("reader", "middle", "first"), job({"topic": "raw"}, "clean")
    untimed, timed = (job({"topic": "flights", **reads}, "raw") for reads in ({}, TIMED))
    assert _batched(client, names, (READER, middle, untimed)) == ["late_producers", "late_producers", None]
    assert _batched(client, names, (READER, middle, timed)) == [None] * 3


def test_a_write_that_is_refused_for_another_reason_gives_no_event_time(client: JobClient) -> None:
    """writer is to get an event time, which reader needs, and is refused in the same batch. 1. Since its rows would be
    there twice. 2. Since it would read what is written at least once."""
    client.put_job("etl", job({"topic": "flights"}, "taken"))
    client.put_job("reads", job({"topic": "taken"}, "read"))
    client.put_job("source", job({"topic": "flights"}, "raw", delivery="at_least_once"))
    client.put_job("writer", UNTIMED)
    side = {"clean": {"where": "true", "output": {"type": "kafka", "topic": "clean"}}}
    twice = {**job({"topic": "flights", **TIMED}, "taken"), "side_outputs": side}
    for first, rule in ((twice, "read_by_others"), (job({"topic": "raw", **TIMED}, "clean"), "late_producers")):
        assert _batched(client, ("writer", "reader"), (first, READER)) == [rule, "late_producers"]
        assert _batched(client, ("reader", "writer"), (READER, first)) == ["late_producers", rule]


def test_a_write_that_is_refused_makes_nobody_late(client: JobClient) -> None:
    client.put_job("etl", job({"topic": "flights"}, "taken"))
    client.put_job("reads", job({"topic": "taken"}, "read"))
    side = {"clean": {"where": "true", "output": {"type": "kafka", "topic": "clean", "delivery": "at_least_once"}}}
    twice = {**job({"topic": "flights"}, "taken"), "side_outputs": side}
    assert _batched(client, ("writer", "reader"), (twice, READER)) == ["late_producers", None]


def test_of_a_chain_in_which_each_is_refused_by_the_one_before_the_last_are_not_decided(client: JobClient) -> None:
    """Each of twelve is to get an event time, and the first may not. What meets no other is done."""
    client.put_job("source", job({"topic": "flights"}, "t0", delivery="at_least_once"))
    names = [f"job{at:02}" for at in range(12)]
    plain, timed = ([job({"topic": f"t{at}", **reads}, f"t{at + 1}") for at in range(12)] for reads in ({}, TIMED))
    assert _batched(client, names, plain) == [None] * 12
    lone = {**UNTIMED, "priority": 3}
    client.put_job("lone", UNTIMED)
    rules = _batched(client, [*names, "lone"], [*timed, lone])
    assert rules == [*["late_producers"] * 10, *["refused_beside"] * 2, None]


def _batched(client: JobClient, names: Sequence[str], configs: Sequence[dict[str, Any]]) -> list[str | None]:
    """The rule of each refusal."""
    writes = [
        BatchWrite(action=BatchAction.PUT_JOB, job=name, config=config)
        for name, config in zip(names, configs, strict=True)
    ]
    return [None if result.problem is None else result.problem.rule for result in client.batch(writes)]


def test_a_plan_says_what_an_earlier_release_accepted(client: JobClient, service: Any) -> None:
    client.put_job("writer", UNTIMED)
    client.put_job("reader", job({"topic": "clean", **TIMED, "allow_late_producers": True}, "counts"))
    with service.engine.begin() as connection:
        connection.exec_driver_sql(
            "UPDATE expected_configs SET config = config #- '{inputs,flights,allow_late_producers}'"
        )
    client.put_job("reader", {**READER, "desired_state": "stopped"})
    (note,) = client.plan("reader", {"priority": 3}).notes
    assert note.startswith("inputs.flights: writer writes clean and knows no event time")
    assert client.plan("writer", {"priority": 3}).notes == []


def test_a_plan_notes_windows_that_wait_and_a_time_that_may_lie_behind(client: JobClient) -> None:
    """1. A job counts in windows, and writes their beginnings. 2. Another one has these for its event time."""
    counted = {"sql": "SELECT window.start AS at, count(*) AS dest FROM flights GROUP BY window(at, '1 hour')"}
    writer = {**job({"topic": "flights", **TIMED}, "clean"), "query": counted}
    (waits,) = client.plan("writer", writer, verify=False).notes
    assert waits.startswith("query.sql: the last windows wait for newer rows")
    client.put_job("writer", writer, verify=False)
    (behind,) = client.plan("reader", READER, verify=False).notes
    assert behind.startswith("inputs.flights.event_time_column: writer makes at in a query with windows")
