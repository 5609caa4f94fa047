"""Where leaves come from."""

from __future__ import annotations

import json
from datetime import UTC, datetime

from penstock.config.classify import classify
from penstock.config.csv_options import CsvValue
from penstock.config.merge import LayerConfig, leaves, merge
from penstock.config.validate import check_merged
from services.job_service.explain import explain
from tests.support.config.jobs import job

WRITTEN = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
EXPIRES = datetime(2026, 1, 3, tzinfo=UTC)
LAYERS = [
    LayerConfig("base", 0, 3, job({"task_count": 2}), "deploy", "first version", WRITTEN, None, 10),
    LayerConfig("scaler", 20, 7, {"task_count": 4}, "auto_scaler", "lag", WRITTEN, None, 11),
    LayerConfig("oncall", 30, 1, {"task_count": 8, "priority": 9}, "ada", "incident 7", WRITTEN, EXPIRES, 12),
]
EXPLAINED = {leaf.field: leaf for leaf in explain(LAYERS)}


def test_a_leaf_names_its_layer_and_all_it_hides() -> None:
    assert EXPLAINED["task_count"].model_dump(mode="json") == {
        "field": "task_count",
        "path": ["task_count"],
        "value": 8,
        "layer": "oncall",
        "change": "rescale",
        "version": 1,
        "revision": 12,
        "author": "ada",
        "reason": "incident 7",
        "written_at": "2026-01-02T03:04:05Z",
        "expires_at": "2026-01-03T00:00:00Z",
        "hides": [
            {"layer": "scaler", "version": 7, "field": "task_count", "value": 4},
            {"layer": "base", "version": 3, "field": "task_count", "value": 2},
            {"layer": "default", "version": None, "field": "task_count", "value": 1},
        ],
        "ignored": None,
    }


def test_a_default_is_its_own_layer() -> None:
    leaf = EXPLAINED["trigger_interval_seconds"]
    assert (leaf.layer, leaf.value, leaf.version, leaf.author, leaf.hides) == ("default", 5.0, None, None, [])


def test_a_required_field_hides_no_default() -> None:
    assert EXPLAINED["inputs.flights.key_groups"].hides == []
    assert EXPLAINED["output.type"].hides == []


def test_defaults_of_other_outputs_are_not_listed() -> None:
    fields = {field for field in EXPLAINED if field.startswith("output.")}
    own = (
        "type", "topic", "cluster", "key_groups", "key_columns", "value_format", "value_schema", "protobuf.message",
        "headers", "schema_registry", "delivery", "allow_loop", "allow_other_writers", "timestamp_format",
        *(f"csv.{name}" for name in CsvValue.model_fields),
    )  # fmt: skip
    assert fields == {f"output.{name}" for name in own}


def test_a_side_output_has_the_defaults_of_its_own_type() -> None:
    sides = {"few": {"output": {"type": "delta", "path": "file:/few"}}}
    layer = LayerConfig("base", 0, 3, {**job({}), "side_outputs": sides}, "ann", None, WRITTEN, None, 10)
    leaves = {leaf.field: leaf.layer for leaf in explain([layer]) if leaf.field.startswith("side_outputs.")}
    few = "side_outputs.few"
    set_ones = dict.fromkeys([f"{few}.output.type", f"{few}.output.path"], "base")
    own = ("partition_columns", "upsert_columns", "allow_other_writers", "allow_loop")
    defaults = [f"{few}.where", f"{few}.columns", *(f"{few}.output.{name}" for name in own)]
    assert leaves == set_ones | dict.fromkeys(defaults, "default")


def test_explained_values_are_the_merged_configuration_with_its_defaults() -> None:
    explained = {tuple(leaf.path): leaf.value for leaf in explain(LAYERS)}
    complete = dict(leaves(check_merged(merge(LAYERS)).model_dump(mode="json")))
    present = {path: value for path, value in complete.items() if value != {}}
    assert {path: value for path, value in explained.items() if path in present} == present
    # A field that is newer than the release before is left out of what is stored where nobody sets it.
    absent = {path: value for path, value in explained.items() if path not in present}
    assert {EXPLAINED[".".join(path)].layer for path in absent} == {"default"}


def test_an_empty_group_sets_nothing_and_is_listed_by_its_fields() -> None:
    """Each field has the layer that gives its value, be it below the layer with the empty group or the default."""
    package = {"package": {"name": "flights", "version": "7"}}
    empty = LayerConfig("oncall", 30, 1, {"package": {}, "labels": {}}, "ada", "why", WRITTEN, None, 12)
    for below, source in ((package, "base"), ({}, "default")):
        base = LayerConfig("base", 0, 3, job(below), "deploy", "first version", WRITTEN, None, 10)
        found = {leaf.field: leaf for leaf in explain([base, empty])}
        fields = {field for field in found if field == "package" or field.startswith("package.")}
        assert fields == {"package.name", "package.version", "package.digest"}
        assert (found["package.version"].layer, found["package.digest"].layer) == (source, "default")
        hidden = [said for field in fields for said in found[field].hides if said.layer == "oncall"]
        assert hidden == [], "nothing of the empty group is hidden, for it says nothing"


def test_an_empty_map_of_chosen_keys_is_a_value_where_no_layer_has_a_key() -> None:
    """1. Nobody sets labels: they are not listed. 2. A layer sets none: it is listed. 3. A layer below has one: that
    one is listed, for an empty map takes nothing away."""
    layers = [LayerConfig("base", 0, 3, job({}), "deploy", "first version", WRITTEN, None, 10)]
    empty = LayerConfig("oncall", 30, 1, {"labels": {}}, "ada", "why", WRITTEN, None, 12)
    team = LayerConfig("scaler", 20, 7, {"labels": {"team": "data"}}, "ben", "why", WRITTEN, None, 11)
    for which, expected in (
        (layers, []),
        ([*layers, empty], [("labels", {}, "oncall")]),
        ([*layers, team, empty], [("labels.team", "data", "scaler")]),
    ):
        found = [(leaf.field, leaf.value, leaf.layer) for leaf in explain(which) if leaf.path[0] == "labels"]
        assert found == expected


def test_the_answer_is_sorted_and_json() -> None:
    paths = [leaf.path for leaf in explain(LAYERS)]
    assert paths == sorted(paths)
    assert json.loads(explain(LAYERS)[0].model_dump_json())["field"] == paths[0][0]


def test_no_layers_are_explained_by_defaults_alone() -> None:
    assert {leaf.layer for leaf in explain([])} == {"default"}
    assert classify({}, {leaf.path[0]: leaf.value for leaf in explain([]) if len(leaf.path) == 1}).fields == ()
