"""Which writes may bring rows twice that a job before has written."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from penstock.config.validate import check_merged
from penstock.control.errors import Conflict
from services.job_service.repeat_texts import Readers, require_no_reader, sentence
from services.job_service.repeats import (
    Job,
    Left,
    Repeat,
    Why,
    by_place,
    is_heir,
    left_by,
    lives_of,
    places_written,
    repeats,
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
    (config({"starting_position": "latest"}), True),
    (config({"starting_position": "0:7"}, priority=3, task_count=1, desired_state="stopped"), True),
    (config(side_outputs={"more": SIDE}), True),
    (config(query={"sql": "SELECT a FROM events WHERE a > 1"}), False),
    (config(args={"above": 1}, query={"sql": "SELECT a FROM events WHERE a > :above"}), False),
    (config(output_mode="update"), False),
    (config({"value_schema": "a BIGINT"}), False),
    (config(output={**TOPIC, "topic": "elsewhere"}, side_outputs={"more": {"output": TOPIC}}), False),
]


@pytest.mark.parametrize(("living", "is_same"), LIVING)
def test_a_job_that_still_writes_makes_the_same_rows_or_others(living: dict[str, Any], is_same: bool) -> None:
    """Two jobs may write other rows of one input into one topic, or one may take the place of the other: what it is, is
    not known. Each later row of both is there, so it does not count where the second one begins."""
    known = by_place(lives_of("etl", living))
    found = [Repeat("out", "etl", ("events",), Why.SAME if is_same else Why.OTHER)]
    for begins in (config(), config({"starting_position": "latest"})):
        assert repeats(new("heir"), begins, known) == found
    assert repeats(new("etl"), config(), known) == []


def test_a_job_that_reads_something_else_makes_no_row_twice() -> None:
    known = by_place(lives_of("etl", config({"topic": "trains"})))
    assert repeats(new("heir"), config(), known) == []


@pytest.mark.parametrize(("output", "place"), [(DELTA, "/data/out"), (TOPIC, "out")])
def test_who_says_that_others_write_to_its_output_is_asked_only_for_the_same_rows(
    output: dict[str, Any], place: str
) -> None:
    """Of a side output, too. Who does not say it meets the one that does."""
    shared = {**output, "allow_other_writers": True}
    known = by_place(lives_of("etl", config(output=shared)))
    query = {"sql": "SELECT a FROM events WHERE a > 1"}
    elsewhere = {**TOPIC, "topic": "elsewhere"}
    by_side = config(query=query, output=elsewhere, side_outputs={"more": {"output": shared}})
    for other in (config(query=query, output=shared), by_side):
        assert repeats(new("heir"), other, known) == []
    assert repeats(new("heir"), config(output=shared), known) == [Repeat(place, "etl", ("events",), Why.SAME)]
    assert repeats(new("heir"), config(query=query, output=output), known) == [
        Repeat(place, "etl", ("events",), Why.OTHER)
    ]


def test_who_is_alone_says_nothing_of_other_writers() -> None:
    """The release before does not know the field of a topic."""
    assert "allow_other_writers" not in config()["output"]
    assert config(output={**TOPIC, "allow_other_writers": False}) == config()


def test_other_rows_were_accepted_and_the_same_are_asked_for() -> None:
    """A job that runs: what it makes counts, by what is expected of it, not by what still runs."""
    other = config(query={"sql": "SELECT a FROM events WHERE a > 1"})
    known = by_place(lives_of("etl", config()))
    running = new("heir")._replace(running=other, before=other)
    assert repeats(running, config(query={"sql": "SELECT a FROM events WHERE a > 2"}), known) == []
    assert repeats(running, config(), known) == [Repeat("out", "etl", ("events",), Why.SAME)]
    assert repeats(running._replace(running=config(), before=config()), other, known) == []
    moved = config(output={**TOPIC, "topic": "moved"})
    assert repeats(running._replace(running=config(), before=moved), config(), known)


def test_a_job_with_a_checkpoint_is_asked_while_it_is_stopped() -> None:
    """Its start brings nothing new. So is one that is to go on from a savepoint; one that begins anew is asked then."""
    elsewhere = config(output={**TOPIC, "topic": "elsewhere"}, desired_state="stopped")
    stopped = config(desired_state="stopped")
    known = by_place(lives_of("etl", config()))
    same = [Repeat("out", "etl", ("events",), Why.SAME)]
    for job in (new("heir")._replace(running=elsewhere), new("heir")._replace(goes_on=True)):
        assert repeats(job._replace(before=elsewhere), stopped, known) == same
        assert repeats(job._replace(before=stopped), config(), known) == []
    assert repeats(new("heir")._replace(before=elsewhere), stopped, known) == []
    assert repeats(new("heir")._replace(before=stopped), config(), known) == same


def test_a_topic_that_a_pattern_takes_in_again_is_read_anew() -> None:
    """Its offsets are forgotten, also where it was to leave it out only since the last write, which its tasks may come
    to run first. A topic that it leaves out from now on makes no row twice. What was accepted is not asked again."""

    def without(*topics: str) -> dict[str, Any]:
        return config(
            {"topic": None, "topic_pattern": "ev.*|more", "excluded_topics": topics}, completeness="drop_late"
        )

    running = new()._replace(running=without("more", "even"), before=without("more", "even"))
    assert repeats(running, without("even"), {}) == [Repeat("out", "etl", ("more",), Why.ANEW)]
    leaves_out = running._replace(running=without("even"))
    assert repeats(leaves_out, without("even"), {}) == [Repeat("out", "etl", ("more",), Why.ANEW)]
    assert repeats(leaves_out, without("even", "more"), {}) == []
    accepted = running._replace(before=without("even"))
    assert repeats(accepted, without("even"), {}) == []
    assert repeats(running, without("more", "even"), {}) == []
    assert repeats(running, without("more", "even", "events"), {}) == []
    assert repeats(running._replace(before=without("even")), without("even"), {}) == []
    known = by_place([LEFT._replace(job="other")])
    assert repeats(running, without("more", "even", "events"), known) == []


def test_rows_of_a_side_output_are_the_same_by_its_condition_and_columns() -> None:
    def with_side(**chosen: Any) -> dict[str, Any]:
        return config(output={**TOPIC, "topic": "own"}, side_outputs={"more": {**SIDE, **chosen}})

    known = by_place(lives_of("etl", with_side(where="a > 1")))
    other = {**with_side(where="a > 1"), "output": config(output={**TOPIC, "topic": "another"})["output"]}
    assert repeats(new("heir"), other, known) == [Repeat("side", "etl", ("events",), Why.SAME)]
    for chosen in ({}, {"where": "a > 2"}, {"where": "a > 1", "columns": ["a"]}):
        other_side = with_side(**chosen)["side_outputs"]
        (found,) = repeats(new("heir"), {**other, "side_outputs": other_side}, known)
        assert found.why is Why.OTHER


def test_only_places_where_the_job_begins_are_looked_at() -> None:
    """Whatever was left elsewhere, by thousands of jobs."""
    known = {**by_place([LEFT]), "elsewhere": Untouched()}
    assert repeats(new("heir"), config(), known) == [Repeat("out", "etl", ("events",))]


def test_a_job_leaves_the_places_where_rows_can_be_twice() -> None:
    side = {"sides": {"output": {**TOPIC, "topic": "side"}}}
    assert left_by("etl", [config(side_outputs=side), config(output=DELTA)]) == [
        Left(place, "etl", ("events",), may_write=True) for place in ("/data/out", "out", "side")
    ]
    assert left_by("etl", [config()], kept=config(output=DELTA)) == [Left("out", "etl", ("events",), may_write=True)]
    assert left_by("etl", [config(priority=2)], kept=config()) == []
    merging = config(output=DELTA)
    merging["output"] = {**merging["output"], "upsert_columns": ["a"]}
    assert left_by("etl", [merging], kept=config(output=DELTA)) == []
    (left,) = left_by("etl", [merging])
    assert left.place == "/data/out", "who comes may add rows to these"
    assert places_written(new(), merging) == frozenset(), "each replaces the one that it repeats"


def test_beside_a_job_that_has_yet_to_leave_new_rows_come_twice_too() -> None:
    """Until its tasks have ended both write."""
    latest = config({"starting_position": "latest"})
    known = by_place([LEFT._replace(may_write=True)])
    assert repeats(new("heir"), latest, known) == [Repeat("out", "etl", ("events",), Why.LEAVING)]
    assert repeats(new("heir"), config(), known) == [Repeat("out", "etl", ("events",))]
    assert repeats(new("heir"), config({"starting_position": "latest", "topic": "trains"}), known) == []


def test_what_is_told_names_places_jobs_and_sources() -> None:
    found = [Repeat("out", "etl", ("events", "~ev.*"))]
    assert sentence("heir", found).startswith(
        "out has rows that etl has written, and heir reads ev.*, events as that did"
    )
    assert "that an earlier job of this name has written" in sentence("etl", found)
    others = [Repeat("out", "other", ("events",), Why.OTHER), *found]
    assert sentence("heir", [found[0]._replace(why=Why.SAME), *others]) == (
        "etl reads ev.*, events too, makes the same rows and writes them to out: as long as both are there, each row "
        "that heir writes is there twice."
    )


@pytest.mark.parametrize(
    ("whys", "told", "not_told"),
    [
        ((Why.SAME,), "jobs stop etl --wait", "latest"),
        ((Why.OTHER,), "set allow_other_writers of that output (`output.allow_other_writers`)", "allow_repeats"),
        ((Why.LEFT, Why.OTHER), "set allow_other_writers of that output", "both are to write"),
        (
            (Why.LEFT,),
            "savepoint restore heir nightly --of etl --allow-repeats`, `penstock jobs start heir",
            "stop etl",
        ),
        ((Why.SAME,), "`penstock jobs delete etl --yes --wait`", "both are to write"),
        ((Why.SAME, Why.LEFT), "what came since etl ended is left out", "both are to write"),
        ((Why.SAVED,), "writes the rows since the savepoint again to out", "starting_position"),
        ((Why.LEAVING,), "Wait until etl has left", "latest"),
        ((Why.ANEW,), "reads events from the beginning again", "savepoint"),
    ],
)
def test_a_refusal_names_the_way_for_what_may_happen(whys: tuple[Why, ...], told: str, not_told: str) -> None:
    found = [Repeat("out", "etl", ("events",), why) for why in whys]
    with pytest.raises(Conflict) as refused:
        require_no_reader("heir", found, Readers(["reads"], more=False), {"etl": "nightly"})
    assert told in refused.value.detail
    assert not_told not in refused.value.detail
    require_no_reader("heir", found, Readers([], more=False), {})


def test_an_heir_was_made_later_and_reads_the_same() -> None:
    (living,) = lives_of("heir", config())
    assert is_heir(living, MADE + timedelta(days=1), LEFT, MADE)
    assert not is_heir(living, MADE, LEFT, MADE)
    assert not is_heir(living, MADE + timedelta(days=1), LEFT._replace(reads=("trains",)), MADE)


def test_a_reader_begins_to_read_what_it_does_not_read_yet() -> None:
    both = {"events": EVENTS, "more": {**EVENTS, "topic": "more", "starting_position": "latest"}}
    assert sources_begun(new(), config(inputs=both)) == {"events"}
    running = new()._replace(running=config())
    assert sources_begun(running, config(inputs=both)) == frozenset()
    assert sources_begun(running, config({"topic": "trains"})) == {"trains"}
    assert sources_begun(new(), config(desired_state="stopped")) == frozenset()
    looks_up = config(tables={"base": {"path": "/data/base/", "format": "delta"}})
    assert sources_begun(new(), looks_up) == {"events", "/data/base"}
    assert sources_begun(running, looks_up) == {"/data/base"}
