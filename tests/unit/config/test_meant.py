"""What an unknown field may mean, and what else is told of the document that has it."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.config import meant as other_words
from penstock.config.meant import meant
from penstock.config.tree import find
from penstock.config.validate import check_change, layer_problems
from penstock.control.errors import InvalidConfig
from tests.support.config.jobs import job


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("tasks", ["task_count"]),
        ("numTasks", ["task_count"]),
        ("parallelism", ["task_count"]),
        ("replicas", ["task_count"]),
        ("inputs.flights.schema", ["inputs.flights.value_schema"]),
        ("streams.new.schema", ["streams.new.value_schema"]),
        ("tables.planes.schema", ["tables.planes.table_schema"]),
        ("schema", ["inputs.*.value_schema", "tables.*.table_schema"]),
        ("inputs.flights.tpic", ["inputs.flights.topic"]),
        ("inputs.flights.partitions", ["inputs.flights.key_groups"]),
        ("output.mode", ["output_mode"]),
        ("resources.memory", ["resources.memory_bytes"]),
        ("outptu", ["output"]),
        ("inputs.flights.task_count", ["task_count"]),
        ("watermark_delay", ["inputs.*.watermark_delay", "streams.*.watermark_delay"]),
        ("nothing-of-the-kind", []),
    ],
)
def test_a_field_by_another_word_or_a_name_like_it(name: str, fields: list[str]) -> None:
    assert meant(name)[: len(fields) or 1] == fields


def test_each_other_word_is_of_one_field_that_there_is() -> None:
    for field, words in other_words._OTHER_WORDS.items():
        assert find(tuple(field.split("."))) is not None, field
        for word in words.split():
            assert find((word,)) is None, word


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        (
            {"tasks": 4, "query": {"sql": "SELECT * FROM flihgts"}},
            [("tasks", "unknown_field"), ("query.sql", "unknown_relation")],
        ),
        (
            {"inputs": {"flights": {"schema": "dest STRING", "key_groups": None}}, "parallelism": 4},
            [
                ("inputs.flights.schema", "unknown_field"),
                ("parallelism", "unknown_field"),
                ("inputs.flights.key_groups", "required"),
            ],
        ),
        ({"tasks": 4, "query": None}, [("tasks", "unknown_field"), ("query", "required")]),
        ({"outptu": {"type": "kafka"}, "output": None}, [("outptu", "unknown_field")]),
        ({"tasks": 4, "task_count": 0}, [("tasks", "unknown_field"), ("task_count", "greater_than_equal")]),
    ],
)
def test_all_problems_of_a_document_with_an_unknown_field_are_told_at_once(
    changes: dict[str, Any], told: list[tuple[str, str]]
) -> None:
    content = job(changes)
    with pytest.raises(InvalidConfig) as refused:
        check_change(content, (), layer_problems("base", content))
    found = [(problem["field"], problem["rule"]) for problem in refused.value.extra["errors"]]
    assert found == [(field, rule) for field, rule in told]
