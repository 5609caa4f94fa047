"""The rules of jobs that read Delta tables and folders, each with a case that breaks it; and what is kept of them."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.config.classify import classify
from penstock.config.declare import ChangeKind
from penstock.config.keygroups import key_group_count
from penstock.config.paths import path_fields
from penstock.config.validate import check_merged
from penstock.control.errors import InvalidConfig
from penstock.tasks.spec import key_group_ranges
from tests.support.config.jobs import job

DELTA = {"format": "delta", "path": "file:/in"}
JSON = {"format": "json", "path": "file:/in", "value_schema": "id BIGINT, at TIMESTAMP"}
GROUPED = {**DELTA, "key_groups": 8, "key_columns": ["id"]}
RATE = {"format": "rate", "rows_per_second": 5}


def reading(stream: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A job of one stream instead of the usual input."""
    made = {"query": {"sql": "SELECT * FROM orders"}, "streams": {"orders": stream}}
    return {"output": {"type": "delta", "path": "file:/out"}, **made, **more}


BROKEN = [
    (reading(DELTA, task_count=2), "task_count", "streams_need_one_task"),
    (reading(GROUPED, task_count=9), "task_count", "key_groups"),
    (reading(GROUPED, task_count=2, key_group_bounds=[8]), "key_group_bounds", "key_groups"),
    (reading(JSON | {"key_columns": ["id"]}), "streams.orders.key_columns", "key_columns_of_key_groups"),
    (reading(JSON | {"key_columns": ["no"], "key_groups": 8}), "streams.orders.key_columns", "unknown_column"),
    (reading(JSON | {"path": "file:/in/*", "key_groups": 8}), "streams.orders.path", "one_folder"),
    (reading(RATE | {"key_groups": 8}), "streams.orders.key_groups", "stream_field_of_format"),
    (reading(GROUPED, streams={"orders": GROUPED, "more": DELTA}), "streams.more.key_groups", "equal_key_groups"),
    (reading(DELTA) | {"inputs": job({})["inputs"]}, "streams", "inputs_or_streams"),
    (reading(DELTA, max_records_per_trigger=5), "max_records_per_trigger", "limit_of_topics"),
    (reading(DELTA, max_batch_seconds=5, max_bytes_per_trigger=9), "max_batch_seconds", "one_limit_of_streams"),
    (reading(RATE, max_batch_seconds=5), "max_batch_seconds", "one_limit_of_streams"),
    (reading(DELTA, tables={"Orders": {"path": "file:/x"}}), "tables.Orders", "name_taken"),
    (reading({"format": "delta"}), "streams.orders.path", "stream_field_required"),
    (reading(JSON | {"value_schema": None}), "streams.orders.value_schema", "stream_field_required"),
    (reading(JSON | {"value_schema": "id"}), "streams.orders.value_schema", "value_schema_ddl"),
    (reading({"format": "rate"}), "streams.orders.rows_per_second", "stream_field_required"),
    (reading(RATE | {"path": "file:/in"}), "streams.orders.path", "stream_field_of_format"),
    (reading(JSON | {"starting_version": 1}), "streams.orders.starting_version", "stream_field_of_format"),
    (reading(DELTA | {"malformed": "null"}), "streams.orders.malformed", "stream_field_of_format"),
    (
        reading(DELTA | {"starting_version": 1, "starting_position": "latest"}),
        "streams.orders.starting_position",
        "one_start",
    ),
    (
        reading(DELTA | {"starting_position": "2026-02-30T08:00Z"}),
        "streams.orders.starting_position",
        "starting_moment",
    ),
    (reading(JSON | {"watermark_delay": "1 hour"}), "streams.orders.event_time_column", "watermark_pair"),
    (
        reading(JSON | {"watermark_delay": "1 hour", "event_time_column": "when"}),
        "streams.orders.event_time_column",
        "unknown_column",
    ),
    (
        reading(JSON | {"watermark_delay": "87601 hours", "event_time_column": "at"}),
        "streams.orders.watermark_delay",
        "watermark_delay_limit",
    ),
    (reading(DELTA, output={"type": "delta", "path": "/in"}), "output.path", "loop"),
]


@pytest.mark.parametrize(("config", "field", "rule"), BROKEN)
def test_what_is_refused(config: dict[str, Any], field: str, rule: str) -> None:
    with pytest.raises(InvalidConfig) as refused:
        check_merged({name: value for name, value in config.items() if value is not None})
    assert (refused.value.field, refused.value.rule) == (field, rule)


def test_one_task_may_read_folders_by_a_pattern() -> None:
    assert check_merged(reading(JSON | {"path": "file:/in/*"})).streams["orders"].path == "file:/in/*"


def test_a_job_of_streams_has_one_task_and_its_paths_are_checked() -> None:
    config = check_merged(reading(DELTA))
    assert (key_group_count(config), len(key_group_ranges(config))) == (1, 1)
    assert dict(path_fields(config)) == {"streams.orders.path": "file:/in", "output.path": "file:/out"}
    assert check_merged(reading(RATE)).streams["orders"].rows_per_second == 5


def test_key_groups_allow_several_tasks_and_the_default_is_stored_as_before() -> None:
    config = check_merged(reading(GROUPED, task_count=3))
    assert (key_group_count(config), [len(part.members()) for part in key_group_ranges(config)]) == (8, [2, 3, 3])
    assert config.streams["orders"].key_function == "spark"
    assert not {"key_groups", "key_columns"} & check_merged(reading(DELTA)).model_dump()["streams"]["orders"].keys()
    before = check_merged(reading(GROUPED)).model_dump(mode="json")
    for change in ({"key_groups": 16}, {"key_columns": ["other"]}):
        assert classify(before, check_merged(reading({**GROUPED, **change}))).kind is ChangeKind.FORBIDDEN


def test_a_job_without_them_is_stored_as_before() -> None:
    stored = check_merged(job({"tables": {"fees": {"path": "file:/x"}}})).model_dump(mode="json")
    assert "streams" not in stored
    assert "refresh_seconds" not in stored["tables"]["fees"]
    refreshed = check_merged(job({"tables": {"fees": {"path": "file:/x", "refresh_seconds": 0.0}}}))
    assert refreshed.model_dump(mode="json")["tables"]["fees"]["refresh_seconds"] == 0


def test_another_path_is_another_job() -> None:
    before = check_merged(reading(DELTA)).model_dump(mode="json")
    other, skip = ({**DELTA, **change} for change in ({"path": "file:/other"}, {"changed_rows": "skip"}))
    assert classify(before, check_merged(reading(other))).kind is ChangeKind.FORBIDDEN
    assert classify(before, check_merged(reading(skip))).kind is ChangeKind.RESTART
