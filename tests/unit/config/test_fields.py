"""The field table."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import Field

from penstock.config.declare import ChangeKind, Model, declare
from penstock.config.merge import leaves
from penstock.config.tree import FIELD_TABLE, build_tree, row_for, rows
from penstock.config.validate import check_merged
from tests.support.config.jobs import job

OUTPUTS = [
    {"type": "kafka", "topic": "t"},
    {"type": "delta", "path": "file:/d"},
    {"type": "files", "path": "file:/f"},
    {"type": "files", "path": "file:/f", "format": "csv", "header": False, "csv": {"delimiter": ";"}},
    {"type": "postgres", "table": "t"},
]


def test_paths_are_unique_and_every_row_is_documented() -> None:
    paths = [row.path for row in FIELD_TABLE]
    assert len(set(paths)) == len(paths)
    assert [row.path for row in FIELD_TABLE if not row.documentation or not row.type or not row.layers] == []


def test_the_table_is_json() -> None:
    rows = json.loads(json.dumps([row.as_json() for row in FIELD_TABLE]))
    (task_count,) = (row for row in rows if row["path"] == "task_count")
    assert task_count == {
        "path": "task_count",
        "type": "integer, 1 to 10000",
        "unit": "tasks",
        "default": 1,
        "required": False,
        "documentation": "Number of tasks. Each task reads its own key groups.",
        "layers": ["*", "!rollback"],
        "change": "rescale",
        "only_for": [],
    }


@pytest.mark.parametrize(
    ("path", "pattern", "change", "described"),
    [
        (
            ("inputs", "flights", "topic"),
            "inputs.*.topic",
            ChangeKind.FORBIDDEN,
            "text: 1 to 249 letters, digits, dots, dashes and underscores, such as orders.eu",
        ),
        (("tables", "planes", "format"), "tables.*.format", ChangeKind.RESTART, "one of parquet, csv, json, delta"),
        (
            ("output", "type"),
            "output.type",
            ChangeKind.FORBIDDEN,
            "one of kafka, delta, files, postgres, foreach_batch",
        ),
        (("output", "path"), "output.path", ChangeKind.RESCALE, "text, 1 to 4096 characters"),
        (("output", "csv", "quote"), "output.csv.quote", ChangeKind.RESCALE, "text, 1 character"),
        (("inputs", "a", "csv", "quote"), "inputs.*.csv.quote", ChangeKind.RESTART, "text, at most 1 character"),
        (("args", "limit"), "args.*", ChangeKind.RESTART, None),
        (("args",), "args.*", ChangeKind.RESTART, None),
        (("labels", "with.dots"), "labels.*", ChangeKind.NONE, "text, at most 1000 characters"),
        (("desired_state",), "desired_state", ChangeKind.RESTART, "one of running, stopped"),
        (("region",), "region", ChangeKind.RESCALE, None),
        (("container_labels", "disk"), "container_labels.*", ChangeKind.RESCALE, None),
        (("resources", "cpu_cores"), "resources.cpu_cores", ChangeKind.LIVE, "number, more than 0, at most 256"),
    ],
)
def test_row_for(path: tuple[str, ...], pattern: str, change: ChangeKind, described: str | None) -> None:
    row = row_for(path)
    assert row is not None
    assert (row.path, row.change) == (pattern, change)
    assert described in (None, row.type)


@pytest.mark.parametrize(
    "path", [(), ("nope",), ("inputs",), ("inputs", "flights"), ("task_count", "x"), ("output", "x")]
)
def test_no_row_for(path: tuple[str, ...]) -> None:
    assert row_for(path) is None


@pytest.mark.parametrize("output", OUTPUTS)
def test_every_leaf_of_a_job_has_a_row_with_its_default(output: dict[str, Any]) -> None:
    given = job({"output": None, "args": {"x": 1}}) | {"output": output}
    complete = check_merged(given).model_dump(mode="json")
    written = dict(leaves(given))
    for path, value in leaves(complete):
        row = row_for(path)
        assert row is not None, path
        assert not row.only_for or output["type"] in row.only_for
        if path not in written and value != {}:
            assert (row.default, row.required) == (value, False), path


def test_the_scaler_may_set_what_it_scales_and_not_what_the_job_is() -> None:
    allowed = {row.path for row in FIELD_TABLE if row.may_be_set_by("scaler")}
    assert {"task_count", "threads_per_task", "resources.cpu_cores", "resources.memory_bytes"} <= allowed
    assert allowed.isdisjoint(
        {"query.sql", "package.version", "max_task_count", "inputs.*.topic", "slo.max_lag_seconds"}
    )


@pytest.mark.parametrize("layer", ["base", "provisioner", "oncall", "canary"])
def test_all_other_layers_also_later_ones_may_set_everything(layer: str) -> None:
    assert [row.path for row in FIELD_TABLE if not row.may_be_set_by(layer)] == []


def test_a_field_without_declaration_is_refused() -> None:
    class Undeclared(Model):
        size: int = 1

    with pytest.raises(TypeError, match="size is not declared"):
        build_tree(Undeclared)


def test_a_layer_named_alone_is_the_only_one() -> None:
    class Declared(Model):
        size: int = Field(1, **declare(ChangeKind.NONE, ("base",)))

    (row,) = rows(build_tree(Declared))
    assert (row.may_be_set_by("base"), row.may_be_set_by("oncall")) == (True, False)
