"""Side outputs of a job: their rules, whose problems name the output, and what their changes cost."""

from __future__ import annotations

from time import process_time
from typing import Any

import pytest

from penstock.config.classify import classify
from penstock.config.declare import ChangeKind
from penstock.config.model import JobConfig
from penstock.config.outputs import about_output, each_output
from penstock.config.paths import path_problems
from penstock.config.validate import check_layer, check_merged
from penstock.control.errors import InvalidConfig
from tests.support.config.jobs import job

TOPIC = {"type": "kafka", "topic": "side"}
DELTA = {"type": "delta", "path": "/side"}
POSTGRES = {"type": "postgres", "table": "side"}


def with_sides(*sides: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """The job with side outputs `a`, `b`, ..."""
    return {**job(), "side_outputs": dict(zip("abc", sides, strict=False)), **changes}


def side(**fields: Any) -> dict[str, Any]:
    return {"output": TOPIC, **fields}


def problems_of(config: dict[str, Any]) -> list[tuple[str, str]]:
    try:
        check_merged(config)
    except InvalidConfig as error:
        return [(found["field"], found["rule"]) for found in error.extra["errors"]]
    return []


_WHERE, _COLUMNS = "side_outputs.a.where", "side_outputs.a.columns"


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("delay > 10 AND dest LIKE 'A%'", None),
        ("exists(xs, x -> x > 1)", None),
        ("delay > 10 -- as a comment", None),
        ("delay >", "sql_syntax"),
        ("delay > 1; DROP TABLE t", "one_select"),
        ("delay > 1 GROUP BY dest", "one_expression"),
        ("delay > 1 ORDER BY dest", "one_expression"),
        ("sum(delay) > 1", "per_row"),
        ("row_number() OVER (ORDER BY dest) > 1", "per_row"),
        ("delay > (SELECT max(delay) FROM result)", "per_row"),
        ("EXISTS (SELECT 1 FROM parquet.`/etc/passwd`)", "per_row"),
        ("dest IN (SELECT dest FROM planes)", "per_row"),
        ("rand() < 0.1", "repeatable"),
        ("time < current_timestamp", "repeatable"),
        ("time < now()", "repeatable"),
        ("time < TIMESTAMP 'now'", "repeatable"),
        ("time < ' Today '::date", "repeatable"),
        ("time < CAST('tomorrow' AS TIMESTAMP)", "repeatable"),
        ("dest = 'now'", None),
        ("time < TIMESTAMP '2026-01-01'", None),
        ("aes_encrypt(dest, dest) IS NULL", "repeatable"),
        ("delay > :least", "expression_argument"),
        ("dest = '${env:HOME}'", "sql_variable"),
        ("reflect('java.lang.System', 'exit', 1)", "foreign_code"),
        ("(" * 2000 + "delay" + ")" * 2000 + " > 1", "sql_too_deep"),
    ],
)
def test_a_condition_is_one_expression_over_one_row(text: str, rule: str | None) -> None:
    assert problems_of(with_sides(side(where=text))) == ([] if rule is None else [(_WHERE, rule)])


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("*", None),
        ("delay * 2 AS doubled", None),
        ("to_json(struct(*)) AS value", None),
        ("delay -- as a comment", None),
        ("delay, dest", "one_expression"),
        ("DISTINCT delay", "one_expression"),
        ("delay FROM parquet.`/etc/passwd`", "sql_syntax"),
        ("(SELECT 1) AS one", "per_row"),
        ("count(*) AS n", "per_row"),
        ("unix_timestamp() AS at", "repeatable"),
        ("uuid() AS id", "repeatable"),
    ],
)
def test_a_column_is_one_expression_over_one_row(text: str, rule: str | None) -> None:
    assert problems_of(with_sides(side(columns=[text]))) == ([] if rule is None else [(_COLUMNS, rule)])


_A = "side_outputs.a.output"


@pytest.mark.parametrize(
    ("config", "field", "rule"),
    [
        (with_sides({"output": {"type": "files", "path": "/out"}}), f"{_A}.type", "union_tag_invalid"),
        (
            with_sides(side(), output={"type": "files", "path": "/out"}, output_mode="update"),
            "output_mode",
            "append_only",
        ),
        (
            with_sides({"output": {**DELTA, "path": "/out/side"}}, output={"type": "files", "path": "/out"}),
            f"{_A}.path",
            "place_taken",
        ),
        (with_sides({"output": {"type": "kafka", "topic": "clean"}}), f"{_A}.topic", "place_taken"),
        (
            with_sides({"output": DELTA}, {"output": {**DELTA, "path": "file:/side/"}}),
            "side_outputs.b.output.path",
            "place_taken",
        ),
        (
            with_sides({"output": {**DELTA, "path": "/side/a"}}, {"output": DELTA}),
            "side_outputs.b.output.path",
            "place_taken",
        ),
        (
            with_sides({"output": POSTGRES}, {"output": {**POSTGRES, "table": "public.side"}}),
            "side_outputs.b.output.table",
            "place_taken",
        ),
        (with_sides({"output": {**POSTGRES, "table": "penstock_batches"}}), f"{_A}.table", "reserved_table"),
        (with_sides({"output": {**TOPIC, "topic": "__x"}}), f"{_A}.topic", "reserved_topic"),
        (with_sides({"output": {**TOPIC, "topic": "flights"}}), f"{_A}.topic", "loop"),
        (with_sides({"output": DELTA}, output_mode="update"), f"{_A}.upsert_columns", "upsert_columns_required"),
        (with_sides({"output": DELTA}, output_mode="complete", task_count=2), "task_count", "complete_needs_one_task"),
        (with_sides({"output": {**TOPIC, "schema_registry": True}}), f"{_A}.schema_registry", "schema_registry_format"),
        (with_sides({"output": {**TOPIC, "value_format": "protobuf"}}), f"{_A}.value_schema", "value_schema_required"),
        (with_sides({"output": {"type": "foreach_batch", "python": "m:f"}}), "package.name", "python_needs_package"),
        (
            {**job(), "side_outputs": {f"s{n}": {"output": {**TOPIC, "topic": f"t{n}"}} for n in range(21)}},
            "side_outputs",
            "too_long",
        ),
    ],
)
def test_a_rule_of_outputs_holds_for_each_and_names_its_field(config: dict[str, Any], field: str, rule: str) -> None:
    assert (field, rule) in problems_of(config)


def test_the_text_of_a_problem_names_the_output() -> None:
    with pytest.raises(InvalidConfig) as refused:
        check_merged(with_sides({"output": {**TOPIC, "topic": "flights"}}))
    assert refused.value.detail == (
        "side_outputs.a.output.topic is a topic of inputs.flights: the job would read its own output again, for ever. "
        "Choose another topic, or set side_outputs.a.output.allow_loop"
    )
    assert about_output("output.topic: x", "output") == "output.topic: x"
    assert about_output("output: no path", "side_outputs.a.output") == "side_outputs.a.output: no path"
    alike = "output.path: file:/data/output.delta/x, topic output.clean: COMMENT ON TABLE output.path_of_all IS NULL"
    assert about_output(alike, "side_outputs.a.output") == f"side_outputs.a.{alike}"
    assert about_output("its own output. side_outputs.b.output.topic", "side_outputs.a.output") == (
        "its own output. side_outputs.b.output.topic"
    )


def test_each_output_is_asked_as_if_it_were_the_only_one() -> None:
    config = check_merged(with_sides({"output": DELTA}, side()))
    assert list(config.outputs) == ["output", "side_outputs.a.output", "side_outputs.b.output"]
    assert [(field, alone.output, dict(alone.side_outputs)) for field, alone in each_output(config)] == [
        (field, output, {}) for field, output in config.outputs.items()
    ]


def test_the_path_of_a_side_output_is_below_the_roots() -> None:
    config = check_merged(with_sides({"output": DELTA}, {"output": POSTGRES}))
    problems = [(problem.field, problem.rule) for problem in path_problems(config, ["/planes", "file:/data"])]
    assert ("side_outputs.a.output.path", "below_path_roots") in problems
    assert not [field for field, _ in problems if field.startswith("side_outputs.b")]


def test_a_job_without_side_outputs_is_stored_as_before() -> None:
    assert "side_outputs" not in check_merged(job()).model_dump(mode="json")
    config = check_merged(job())
    assert [alone for _, alone in each_output(config)] == [config]


@pytest.mark.parametrize(
    ("before", "after", "kind"),
    [
        ((), (side(),), ChangeKind.RESCALE),
        (({"output": DELTA}, side()), ({"output": DELTA},), ChangeKind.RESCALE),
        ((side(),), ({"output": DELTA},), ChangeKind.RESCALE),
        (({"output": DELTA},), ({"output": {**DELTA, "path": "/other"}},), ChangeKind.RESCALE),
        ((side(),), ({"output": {**TOPIC, "key_columns": ["dest"]}},), ChangeKind.RESCALE),
        ((side(),), (side(where="delay > 1"),), ChangeKind.RESTART),
        ((side(),), (side(columns=["dest"]),), ChangeKind.RESTART),
        ((side(),), ({"output": {**TOPIC, "topic": "other"}},), ChangeKind.RESTART),
        ((side(),), ({"output": {**TOPIC, "allow_loop": True}},), ChangeKind.NONE),
        ((side(),), ({"output": {**TOPIC, "delivery": "exactly_once"}},), ChangeKind.NONE),
    ],
)
def test_what_a_change_costs(before: tuple[Any, ...], after: tuple[Any, ...], kind: ChangeKind) -> None:
    """A side output that comes or goes, or becomes one of another type, needs a new generation, and never a new job."""
    assert classify(with_sides(*before), with_sides(*after)).kind is kind


def test_a_layer_may_set_parts_of_a_side_output_and_no_unknown_ones() -> None:
    check_layer("oncall", {"side_outputs": {"a": {"where": "delay > 1", "output": {"topic": "x"}}}})
    with pytest.raises(InvalidConfig) as refused:
        check_layer("oncall", {"side_outputs": {"a": {"output": {"type": "files"}}, "no name": {"filter": "x"}}})
    assert [(found["field"], found["rule"]) for found in refused.value.extra["errors"]] == [
        ("side_outputs.a.output.type", "literal_error"),
        ("side_outputs.no name", "bad_key"),
        ("side_outputs.no name.filter", "unknown_field"),
    ]
    with pytest.raises(InvalidConfig, match="the layer scaler may not set this field"):
        check_layer("scaler", {"side_outputs": {"a": {"where": "delay > 1"}}})


def test_a_whole_configuration_comes_back_from_its_json() -> None:
    config = check_merged(with_sides(side(where="delay > 1"), {"columns": ["dest"], "output": POSTGRES}))
    assert JobConfig.model_validate_json(config.model_dump_json()) == config


def test_the_texts_of_all_side_outputs_have_one_limit_of_work() -> None:
    """The parser takes a fifth of a second for each of these, so they are not read all."""
    slow = "struct(" * 10 + "delay" + ")" * 10
    sides = [side(columns=[f"{slow} AS c{n}{number}" for number in range(200)]) for n in range(3)]
    for n, each in enumerate(sides):
        each["output"] = {**TOPIC, "topic": f"t{n}"}
    began = process_time()
    assert ("side_outputs.a.columns", "sql_too_complex") in problems_of(with_sides(*sides))
    assert process_time() - began < 20
    long = [f"'{'x' * 9_000}' AS c{number}" for number in range(12)]
    assert problems_of(with_sides(side(columns=long))) == [("side_outputs", "sql_too_long")]


@pytest.mark.parametrize(
    ("other", "told"),
    [
        ("/side", "side_outputs.b.output.path and side_outputs.a.output.path are one place: each output"),
        ("/side/b", "side_outputs.b.output.path and side_outputs.a.output.path are a folder and one in it: each"),
    ],
)
def test_two_outputs_in_one_place_are_both_named(other: str, told: str) -> None:
    with pytest.raises(InvalidConfig) as refused:
        check_merged(with_sides({"output": DELTA}, {"output": {**DELTA, "path": other}}))
    assert refused.value.detail.startswith(told)
