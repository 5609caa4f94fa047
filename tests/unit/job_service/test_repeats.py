"""Which writes may bring rows twice that a job before has written."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from penstock.config.validate import check_merged
from services.job_service.repeats import (
    Job,
    Left,
    Repeat,
    by_place,
    left_by,
    lives_of,
    places_begun,
    repeats,
    sentence,
    sources_begun,
)

MADE = datetime(2026, 1, 1, tzinfo=UTC)
TOPIC = {"type": "kafka", "topic": "out"}
DELTA = {"type": "delta", "path": "/data/out"}
EVENTS = {"topic": "events", "key_groups": 1, "value_schema": "a INT"}
PATTERN = {"topic_pattern": "ev.*|more", "key_groups": 1, "value_schema": "a INT"}


def config(source: dict[str, Any] | None = None, output: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    given: dict[str, Any] = {
        "query": {"sql": "SELECT a FROM events"},
        "inputs": {"events": {**EVENTS, **(source or {})}},
        "output": output or TOPIC,
        **more,
    }
    return check_merged(given).model_dump(mode="json")


def new(name: str = "etl") -> Job:
    return Job(name, MADE, None)


class Untouched(list[Left]):
    """What must not be read."""

    def __iter__(self) -> Iterator[Left]:
        raise AssertionError("read")


LEFT = Left("out", "etl", ("events",), MADE - timedelta(days=1))
MATCHING = config(completeness="drop_late", inputs={"events": PATTERN})
FOLDER = config(
    query={"sql": "SELECT a FROM rows"}, inputs={}, streams={"rows": {"format": "delta", "path": "/data/rows"}}
)
FROM_NOW = config(
    query={"sql": "SELECT a FROM rows"},
    inputs={},
    streams={"rows": {"format": "delta", "path": "/data/rows", "starting_position": "latest"}},
)


@pytest.mark.parametrize(
    ("after", "reads", "sources"),
    [
        (config(), ("events",), ("events",)),
        (config(), ("~ev.*",), ("events",)),
        (MATCHING, ("events",), ("~ev.*|more",)),
        (MATCHING, ("~other",), ("~ev.*|more",)),
        (MATCHING, ("trains",), ()),
        (config(), ("events@eu", "trains"), ()),
        (config({"starting_position": "latest"}), ("events",), ()),
        (config({"starting_position": "0:7"}), ("events",), ("events",)),
        (FOLDER, ("/data/rows",), ("/data/rows",)),
        (FROM_NOW, ("/data/rows",), ()),
        (config(desired_state="stopped"), ("events",), ()),
        (config(output={**TOPIC, "topic": "elsewhere"}), ("events",), ()),
    ],
)
def test_rows_come_again_by_a_source_in_common_that_is_read_from_before_now(
    after: dict[str, Any], reads: tuple[str, ...], sources: tuple[str, ...]
) -> None:
    expected = [Repeat("out", "etl", sources)] if sources else []
    assert repeats(new("heir"), after, by_place([LEFT._replace(reads=reads)])) == expected


def test_a_write_is_asked_only_for_what_it_brings_about() -> None:
    """1. Rows come again, and it was accepted: a later write of the job is left alone. 2. It was stopped, or is to read
    what it did not: asked. 3. It runs: only a further place counts, wherever its inputs begin. What it left there
    itself it goes on from; what a job of its name left before it was made, it does not."""
    accepted = new()._replace(before=config())
    assert repeats(accepted, config(priority=2), by_place([LEFT])) == []
    for before in (config(desired_state="stopped"), config({"starting_position": "latest"}), None):
        assert repeats(new()._replace(before=before), config(), by_place([LEFT])) == [Repeat("out", "etl", ("events",))]
    moved = config({"starting_position": "latest"}, {**TOPIC, "topic": "elsewhere"})
    running = new()._replace(running=moved, before=moved)
    assert repeats(running, moved, by_place([LEFT._replace(place="elsewhere")])) == []
    back = config({"starting_position": "latest"})
    assert repeats(running, back, by_place([LEFT])) == [Repeat("out", "etl", ("events",))]
    assert repeats(running, back, by_place([LEFT._replace(left_at=MADE + timedelta(days=1))])) == []
    assert repeats(running, back, by_place([LEFT._replace(job="other", left_at=MADE + timedelta(days=1))]))


def test_who_reads_less_than_was_accepted_is_not_asked_again() -> None:
    both = config(inputs={"events": EVENTS, "more": {**EVENTS, "topic": "more"}})
    known = by_place([LEFT._replace(reads=("events", "more"))])
    assert repeats(new()._replace(before=both), config(), known) == []
    assert repeats(new()._replace(before=config()), both, known) == [Repeat("out", "etl", ("events", "more"))]


SIDE = {"output": {**TOPIC, "topic": "side"}}
LIVING: list[tuple[dict[str, Any], bool]] = [
    (config(), True),
    (config({"starting_position": "0:7"}, priority=3, task_count=1, desired_state="stopped"), True),
    (config(side_outputs={"more": SIDE}), True),
    (config(query={"sql": "SELECT a FROM events WHERE a > 1"}), False),
    (config(args={"above": 1}, query={"sql": "SELECT a FROM events WHERE a > :above"}), False),
    (config(output_mode="update"), False),
    (config({"value_schema": "a BIGINT"}), False),
    (config(output={**TOPIC, "topic": "elsewhere"}, side_outputs={"more": {"output": TOPIC}}), False),
]


@pytest.mark.parametrize(("living", "is_same"), LIVING)
def test_of_a_job_that_still_writes_only_the_same_rows_come_again(living: dict[str, Any], is_same: bool) -> None:
    """Two jobs may write other rows of one input into one topic."""
    known = by_place(lives_of("etl", living))
    found = [Repeat("out", "etl", ("events",), lives=True)] if is_same else []
    assert repeats(new("heir"), config(), known) == found
    assert repeats(new("etl"), config(), known) == []


def test_rows_of_a_side_output_are_the_same_by_its_condition_and_columns() -> None:
    def with_side(**chosen: Any) -> dict[str, Any]:
        return config(output={**TOPIC, "topic": "own"}, side_outputs={"more": {**SIDE, **chosen}})

    known = by_place(lives_of("etl", with_side(where="a > 1")))
    other = {**with_side(where="a > 1"), "output": config(output={**TOPIC, "topic": "another"})["output"]}
    assert repeats(new("heir"), other, known) == [Repeat("side", "etl", ("events",), lives=True)]
    for chosen in ({}, {"where": "a > 2"}, {"where": "a > 1", "columns": ["a"]}):
        other_side = with_side(**chosen)["side_outputs"]
        assert repeats(new("heir"), {**other, "side_outputs": other_side}, known) == []


def test_only_places_where_the_job_begins_are_looked_at() -> None:
    """Whatever was left elsewhere, by thousands of jobs."""
    known = {**by_place([LEFT]), "elsewhere": Untouched()}
    assert repeats(new("heir"), config(), known) == [Repeat("out", "etl", ("events",))]


def test_a_job_leaves_the_places_where_rows_can_be_twice() -> None:
    side = {"sides": {"output": {**TOPIC, "topic": "side"}}}
    assert left_by("etl", [config(side_outputs=side), config(output=DELTA)]) == [
        Left(place, "etl", ("events",)) for place in ("/data/out", "out", "side")
    ]
    assert left_by("etl", [config()], kept=config(output=DELTA)) == [Left("out", "etl", ("events",))]
    assert left_by("etl", [config(priority=2)], kept=config()) == []
    merging = config(output=DELTA)
    merging["output"] = {**merging["output"], "upsert_columns": ["a"]}
    assert (left_by("etl", [merging]), places_begun(new(), merging)) == ([], frozenset())


def test_what_is_told_names_places_jobs_and_sources() -> None:
    found = [Repeat("out", "etl", ("events", "~ev.*"))]
    assert sentence("heir", found).startswith(
        "out has rows that etl has written, and heir reads ev.*, events as that did"
    )
    assert "that an earlier job of this name has written" in sentence("etl", found)
    assert sentence("heir", [found[0]._replace(lives=True)]) == (
        "etl reads ev.*, events too, makes the same rows and writes them to out: as long as both are there, each row "
        "that heir writes is there twice."
    )


def test_a_reader_begins_to_read_what_it_does_not_read_yet() -> None:
    both = {"events": EVENTS, "more": {**EVENTS, "topic": "more", "starting_position": "latest"}}
    assert sources_begun(new(), config(inputs=both)) == {"events"}
    running = new()._replace(running=config())
    assert sources_begun(running, config(inputs=both)) == frozenset()
    assert sources_begun(running, config({"topic": "trains"})) == {"trains"}
    assert sources_begun(new(), config(desired_state="stopped")) == frozenset()
