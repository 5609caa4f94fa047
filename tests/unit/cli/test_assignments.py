"""`field=value`: the type and the unit are those of the field table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from penstock.cli.assignments import change_of
from penstock.control.errors import PenstockError, UserError


@pytest.mark.parametrize(
    ("words", "patch"),
    [
        (["task_count=4"], {"task_count": 4}),
        (["resources.cpu_cores=0.5", "resources.disk_bytes=1"], {"resources": {"cpu_cores": 0.5, "disk_bytes": 1}}),
        (["resources.memory_bytes=2GiB"], {"resources": {"memory_bytes": 2 * 2**30}}),
        (["resources.memory_bytes=512 mb"], {"resources": {"memory_bytes": 2**29}}),
        (["trigger_interval_seconds=1m30s"], {"trigger_interval_seconds": 90.0}),
        (["slo.max_lag_seconds=5"], {"slo": {"max_lag_seconds": 5.0}}),
        (["isolation=process"], {"isolation": "process"}),
        (["inputs.bids.key_columns=a, b"], {"inputs": {"bids": {"key_columns": ["a", "b"]}}}),
        (['inputs.bids.key_columns=["a"]'], {"inputs": {"bids": {"key_columns": ["a"]}}}),
        (["package.version=2"], {"package": {"version": "2"}}),
        (["args.least=15", "args.name=x y", "args.dry=true"], {"args": {"least": 15, "name": "x y", "dry": True}}),
        (["query.sql=SELECT 1 = 1"], {"query": {"sql": "SELECT 1 = 1"}}),
        (["spark_settings.spark.sql.ansi.enabled=true"], {"spark_settings": {"spark.sql.ansi.enabled": "true"}}),
        (["max_records_per_trigger=null", "resources=null"], {"max_records_per_trigger": None, "resources": None}),
        (['resources={"cpu_cores": 1}'], {"resources": {"cpu_cores": 1}}),
        (['{"task_count": 2}'], {"task_count": 2}),
    ],
)
def test_a_value_has_the_type_of_its_field(words: list[str], patch: dict[str, Any]) -> None:
    assert change_of(words) == patch


def test_a_file_is_read(tmp_path: Path) -> None:
    file = tmp_path / "change.json"
    file.write_text('{"args": {"job": "${job}"}}')
    assert change_of([str(file)], names={"job": "etl"}) == {"args": {"job": "etl"}}


@pytest.mark.parametrize(
    ("words", "field", "rule", "told"),
    [
        (
            ["task_count=many"],
            "task_count",
            "int_parsing",
            "task_count: many is not allowed; allowed: integer, 1 to 10000",
        ),
        (["task_count=0"], "task_count", "greater_than_equal", "integer, 1 to 10000, tasks"),
        (["task_count=true"], "task_count", "int_parsing", "true is not allowed"),
        (["task_count="], "task_count", "int_parsing", "nothing is not allowed"),
        (["isolation=full"], "isolation", "literal_error", "one of shared, process"),
        (["slo.max_lag_seconds=inf"], "slo.max_lag_seconds", "finite_number", "inf is not allowed"),
        (["task_cont=4"], "task_cont", "known", "do you mean task_count"),
        (["task_count.x=4"], "task_count.x", "known", "there is no field"),
        (["resources.=4"], "resources.", "known", "there is no field"),
        (["resources=4"], "resources", "object", "write resources.NAME=value"),
        (["task_count"], "config", "field_value", "write field=value"),
        (["=4"], "config", "field_value", "write field=value"),
        (["task_count=4", '{"task_count": 2}'], "config", "field_value", "is no assignment"),
        (["task_count=4", "task_count=5"], "task_count", "once", "given twice"),
        (["resources=null", "resources.cpu_cores=1"], "resources.cpu_cores", "once", "given twice"),
        (["resources.cpu_cores=1", "resources=null"], "resources", "once", "given twice"),
    ],
)
def test_what_does_not_fit_is_refused_with_field_and_rule(words: list[str], field: str, rule: str, told: str) -> None:
    with pytest.raises(UserError) as refused:
        change_of(words)
    assert isinstance(refused.value, PenstockError)
    assert (refused.value.field, refused.value.rule) == (field, rule)
    assert told in refused.value.detail


def test_all_that_is_refused_is_told_at_once() -> None:
    with pytest.raises(UserError) as told:
        change_of(["task_count=nine", "task_cuont=2", "priority=1", "nonsense"])
    assert told.value.field == "task_count"
    assert [each["field"] for each in told.value.extra["errors"]] == ["task_count", "task_cuont", "config"]
