"""Which writes may bring rows twice that a job before has written."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from penstock.config.validate import check_merged
from services.job_service.repeats import Job, Left, Repeat, left_by, places_begun, repeats, sentence, sources_begun

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
    assert repeats(new("heir"), after, [LEFT._replace(reads=reads)]) == expected


def test_a_write_is_asked_only_for_what_it_brings_about() -> None:
    """1. Rows come again, and it was accepted: a later write of the job is left alone. 2. It was stopped, or is to read
    what it did not: asked. 3. It runs: only a further place counts, wherever its inputs begin. What it left there
    itself it goes on from; what a job of its name left before it was made, it does not."""
    accepted = new()._replace(before=config())
    assert repeats(accepted, config(priority=2), [LEFT]) == []
    for before in (config(desired_state="stopped"), config({"starting_position": "latest"}), None):
        assert repeats(new()._replace(before=before), config(), [LEFT]) == [Repeat("out", "etl", ("events",))]
    moved = config({"starting_position": "latest"}, {**TOPIC, "topic": "elsewhere"})
    running = new()._replace(running=moved, before=moved)
    assert repeats(running, moved, [LEFT._replace(place="elsewhere")]) == []
    back = config({"starting_position": "latest"})
    assert repeats(running, back, [LEFT]) == [Repeat("out", "etl", ("events",))]
    assert repeats(running, back, [LEFT._replace(left_at=MADE + timedelta(days=1))]) == []
    assert repeats(running, back, [LEFT._replace(job="other", left_at=MADE + timedelta(days=1))])


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


def test_a_reader_begins_to_read_what_it_does_not_read_yet() -> None:
    both = {"events": EVENTS, "more": {**EVENTS, "topic": "more", "starting_position": "latest"}}
    assert sources_begun(new(), config(inputs=both)) == {"events"}
    running = new()._replace(running=config())
    assert sources_begun(running, config(inputs=both)) == frozenset()
    assert sources_begun(running, config({"topic": "trains"})) == {"trains"}
    assert sources_begun(new(), config(desired_state="stopped")) == frozenset()
