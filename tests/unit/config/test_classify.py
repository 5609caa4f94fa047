"""Change kinds of differences."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.config.classify import NO_DIFFERENCE, FieldChange, classify, form_changes
from penstock.config.declare import ChangeKind
from penstock.config.tree import row_for
from penstock.config.validate import check_merged
from tests.support.config.jobs import job

NONE, LIVE, RESTART, RESCALE, FORBIDDEN = ChangeKind
CHANGES = [
    ({"owner": "data-team"}, NONE, ["owner"]),
    ({"labels": {"tier": "gold"}}, NONE, ["labels.tier"]),
    ({"container_labels": {"disk": "ssd"}}, RESCALE, ["container_labels.disk"]),
    ({"slo": {"max_lag_seconds": 30}}, NONE, ["slo.max_lag_seconds"]),
    ({"priority": 5}, LIVE, ["priority"]),
    ({"completeness": "drop_late"}, RESTART, ["completeness"]),
    ({"resources": {"cpu_cores": 1.5}}, LIVE, ["resources.cpu_cores"]),
    ({"query": {"sql": "SELECT dest FROM flights"}}, RESTART, ["query.sql"]),
    ({"package": {"version": "2"}}, RESTART, ["package.version"]),
    ({"desired_state": "stopped"}, RESTART, ["desired_state"]),
    ({"spark_settings": {"spark.sql.ansi.enabled": "true"}}, RESTART, ["spark_settings.spark.sql.ansi.enabled"]),
    ({"tables": {"airports": {"path": "file:/airports"}}}, RESTART, ["tables.airports.path"]),
    ({"tables": {"planes": None}}, RESTART, ["tables.planes.path"]),
    ({"args": {"limit": 3}}, RESTART, ["args.limit"]),
    ({"output": {"topic": "cleaner"}}, RESTART, ["output.topic"]),
    ({"output": {"allow_loop": True}}, NONE, ["output.allow_loop"]),
    ({"output": {"allow_other_writers": True}}, RESTART, ["output.allow_other_writers"]),
    ({"task_count": 4}, RESCALE, ["task_count"]),
    ({"task_count": 3, "key_group_bounds": [1, 2]}, RESCALE, ["key_group_bounds", "task_count"]),
    ({"threads_per_task": 2}, RESCALE, ["threads_per_task"]),
    ({"inputs": {"flights": {"topic": "other"}}}, FORBIDDEN, ["inputs.flights.topic"]),
    (
        {"inputs": {"flights": {"topic": None, "topic_pattern": "f.*"}}},
        FORBIDDEN,
        ["inputs.flights.topic", "inputs.flights.topic_pattern"],
    ),
    ({"inputs": {"flights": {"key_columns": ["dest", "carrier"]}}}, RESCALE, ["inputs.flights.key_columns"]),
    ({"inputs": {"flights": {"key_groups": 9}}}, RESCALE, ["inputs.flights.key_groups"]),
    ({"inputs": {"flights": {"cluster": "eu"}}}, FORBIDDEN, ["inputs.flights.cluster"]),
    ({"output": {"cluster": "eu"}}, RESCALE, ["output.cluster"]),
    ({"output": {"key_groups": 4}}, FORBIDDEN, ["output.key_groups"]),
    ({"state_backend": "rocksdb"}, FORBIDDEN, ["state_backend"]),
    ({"priority": 5, "task_count": 2, "owner": "me"}, RESCALE, ["priority", "task_count", "owner"]),
]


@pytest.mark.parametrize(("changes", "kind", "fields"), CHANGES)
def test_change(changes: dict[str, Any], kind: ChangeKind, fields: list[str]) -> None:
    difference = classify(job(), job(changes))
    assert difference.kind is kind
    assert sorted(change.field for change in difference.fields) == sorted(fields)


@pytest.mark.parametrize(("changes", "kind", "fields"), CHANGES)
def test_models_and_maps_give_one_answer(changes: dict[str, Any], kind: ChangeKind, fields: list[str]) -> None:
    running, expected = check_merged(job()), check_merged(job(changes))
    assert classify(running, expected).kind is kind
    assert _comparable(classify(running, job(changes)).fields) == _comparable(classify(running, expected).fields)
    assert sorted(change.field for change in classify(job(), expected).fields) == sorted(fields)


def test_old_and_new_values_of_a_default() -> None:
    (change,) = classify(job(), job({"task_count": 4})).fields
    assert (change.old, change.new) == (1, 4)
    assert change.as_json() == {"field": "task_count", "old": 1, "new": 4, "kind": "rescale"}


def test_writing_a_default_out_changes_nothing() -> None:
    written_out = job(
        {"task_count": 1, "resources": {"cpu_cores": 0.25}, "args": {}, "inputs": {"flights": {"format": "json"}}}
    )
    assert classify(job(), written_out) == NO_DIFFERENCE
    assert classify(check_merged(job()), job()) == NO_DIFFERENCE


@pytest.mark.parametrize(("key_groups", "never"), [(9, False), (7, True)])
def test_key_groups_only_grow(key_groups: int, never: bool) -> None:
    (change,) = classify(job(), job({"inputs": {"flights": {"key_groups": key_groups}}})).fields
    assert change.never_fits is never


def test_an_added_input_is_forbidden() -> None:
    weather = {"topic": "weather", "key_groups": 8, "format": "raw"}
    difference = classify(job(), job({"inputs": {"weather": weather}}))
    assert difference.kind is FORBIDDEN
    assert {change.field: (change.old, change.new) for change in difference.fields} == {
        "inputs.weather.topic": (None, "weather"),
        "inputs.weather.key_groups": (None, 8),
        "inputs.weather.format": ("json", "raw"),
    }


def test_a_removed_input_is_forbidden() -> None:
    weather = {"topic": "weather", "key_groups": 8, "format": "raw"}
    assert classify(job({"inputs": {"weather": weather}}), job()).kind is FORBIDDEN


def test_another_type_of_output_is_forbidden() -> None:
    files = job({"output": None}) | {"output": {"type": "files", "path": "file:/f"}}
    delta = job({"output": None}) | {"output": {"type": "delta", "path": "file:/f"}}
    difference = classify(files, delta)
    assert difference.kind is FORBIDDEN
    assert {"output.type"} <= {change.field for change in difference.fields}


@pytest.mark.parametrize(("old", "new"), [(1, True), (0, False), (1, 1.0), ("1", 1)])
def test_arguments_differ_by_type(old: Any, new: Any) -> None:
    difference = classify(job({"args": {"x": old}}), job({"args": {"x": new}}))
    assert [(change.field, change.kind) for change in difference.fields] == [("args.x", RESTART)]


def test_numbers_elsewhere_do_not() -> None:
    assert classify(job({"resources": {"cpu_cores": 1}}), job({"resources": {"cpu_cores": 1.0}})) == NO_DIFFERENCE


def test_a_field_of_another_version_is_a_restart() -> None:
    difference = classify(job() | {"gone": {"since": 2}}, job())
    assert [(change.field, change.kind) for change in difference.fields] == [("gone", RESTART)]


@pytest.mark.parametrize(("left_over", "changes"), [(None, ()), ({}, (FieldChange(("gone",), {}, None, RESTART),))])
def test_a_field_of_another_version_has_no_default_but_nothing(
    left_over: Any, changes: tuple[FieldChange, ...]
) -> None:
    assert classify(job() | {"gone": left_over}, job()).fields == changes


# Bounds do not count beside another task_count, and are then left out of the merge (`test_bounds`).
CONFIGS = st.builds(
    lambda changes: job({key: value for change in changes for key, value in change.items()}),
    st.lists(st.sampled_from([changes for changes, _, _ in CHANGES if "key_group_bounds" not in changes]), max_size=4),
)


@given(CONFIGS)
def test_reflexive(config: dict[str, Any]) -> None:
    assert classify(config, config) is NO_DIFFERENCE
    assert classify(config, check_merged(config)) == NO_DIFFERENCE


@given(CONFIGS, CONFIGS)
def test_the_kind_is_the_greatest_of_the_fields_and_the_same_both_ways(
    one: dict[str, Any], other: dict[str, Any]
) -> None:
    there, back = classify(one, other), classify(other, one)
    assert there.kind is max((change.kind for change in there.fields), default=NONE)
    swapped = [(path, new, old) for path, old, new in _comparable(back.fields)]
    assert _comparable(there.fields) == swapped
    for change in there.fields:
        row = row_for(change.path)
        assert row is not None
        assert row.change is change.kind


def _comparable(fields: tuple[FieldChange, ...]) -> list[tuple[tuple[str, ...], str, str]]:
    return sorted((change.path, _text(change.old), _text(change.new)) for change in fields)


def _text(value: Any) -> str:
    return repr(float(value)) if isinstance(value, int) else repr(value)


@pytest.mark.parametrize(
    ("output", "refused"),
    [
        ({"format": "json"}, ["output.format"]),
        ({"header": False}, ["output.header"]),
        ({"csv": {"delimiter": ";", "compression": "gzip"}}, ["output.csv.delimiter"]),
        ({"csv": {"compression": "gzip"}}, []),
        ({"path": "file:/other", "csv": {"delimiter": ";"}}, []),
    ],
)
def test_a_folder_takes_files_of_one_form(output: dict[str, Any], refused: list[str]) -> None:
    files = {"output": {"type": "files", "path": "file:/out", "format": "csv"}}
    changed = {"output": {**files["output"], **output}}
    assert [each.field for each in form_changes(classify(job(files), job(changed)), "files")] == refused
