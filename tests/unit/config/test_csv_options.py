"""The options of CSV: what is refused, what they cost, and that jobs without them are stored as before."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.config.classify import classify
from penstock.config.declare import ChangeKind
from penstock.config.merge import overlay
from penstock.config.validate import check_layer, check_merged
from penstock.control.errors import InvalidConfig
from tests.support.config.jobs import job

INPUT = {"format": "csv", "value_schema": "dest STRING, time TIMESTAMP"}
OPTIONS = {"delimiter": ";", "quote": "'", "escape": "'", "null_value": "NULL"}
OWNERS = ("inputs.flights", "tables.fees", "streams.fees", "output")
TOPIC = {"type": "kafka", "topic": "clean", "value_format": "csv"}


def owner(name: str, file_format: str, csv: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """A job with an input, a table, a stream or an output of the format."""
    part: dict[str, Any] = {**({"csv": csv} if csv is not None else {}), **more}
    files = {"path": "file:/f", "format": file_format}
    match name:
        case "inputs.flights":
            return job({"inputs": {"flights": {**INPUT, "format": file_format, **part}}})
        case "tables.fees":
            return job({"tables": {"fees": {**files, **part}}})
        case "streams.fees":
            stream = {**files, "value_schema": "id BIGINT", **part}
            delta = {"type": "delta", "path": "file:/out"}
            return {"query": {"sql": "SELECT * FROM fees"}, "streams": {"fees": stream}, "output": delta}
    return {**job(), "output": {"type": "files", **files, **part}}


def refusal(config: dict[str, Any]) -> tuple[str | None, str | None, str]:
    with pytest.raises(InvalidConfig) as refused:
        check_merged(config)
    return refused.value.field, refused.value.rule, str(refused.value)


@pytest.mark.parametrize("name", OWNERS)
def test_options_of_another_format_are_refused(name: str) -> None:
    config = owner(name, "json", OPTIONS)
    assert refusal(config) == (
        f"{name}.csv",
        "csv_options_of_csv",
        f"{name}.csv has options of csv, but the format is json",
    )
    check_merged(owner(name, "csv", OPTIONS))


@pytest.mark.parametrize("name", OWNERS)
@pytest.mark.parametrize(
    ("csv", "leaf", "rule", "told"),
    [
        ({"delimiter": ""}, "delimiter", "string_too_short", "1 to 10 characters"),
        ({"delimiter": ";\n"}, "delimiter", "csv_sign", "line break"),
        ({"delimiter": "a;b", "quote": ";"}, "delimiter", "csv_signs_differ", "has the quote in it, ;"),
        ({"delimiter": "\\"}, "delimiter", "csv_signs_differ", "has the escape in it"),
        ({"delimiter": r"\t"}, "delimiter", "csv_delimiter_named", "give the character itself"),
        ({"delimiter": ";", "null_value": "a;b"}, "null_value", "csv_signs_differ", "has the delimiter in it, ;"),
        ({"quote": "''"}, "quote", "string_too_long", "1 character"),
        ({"quote": "\r"}, "quote", "csv_sign", "line break"),
        ({"quote": "\N{GRINNING FACE}"}, "quote", "csv_sign", "two characters"),
        ({"escape": ""}, "escape", "string_too_short", "allowed: text, 1 character"),
        ({"null_value": "n" * 101}, "null_value", "string_too_long", "at most 100 characters"),
        ({"ignore_leading_white_space": 1}, "ignore_leading_white_space", "bool_type", "true or false"),
        ({"sep": ";"}, "sep", "unknown_field", ""),
    ],
)
def test_what_spark_would_refuse_is_refused_before(
    name: str, csv: dict[str, Any], leaf: str, rule: str, told: str
) -> None:
    field, found, detail = refusal(owner(name, "csv", csv))
    assert (field, found) == (f"{name}.csv.{leaf}", rule)
    assert told in detail


@pytest.mark.parametrize(
    ("name", "csv", "leaf", "rule"),
    [
        ("tables.fees", {"comment": ","}, "delimiter", "csv_signs_differ"),
        ("tables.fees", {"comment": '"'}, "comment", "csv_signs_differ"),
        ("streams.fees", {"encoding": "UTF-16"}, "encoding", "csv_encoding_of_lines"),
        ("streams.fees", {"encoding": "windows-1252"}, "encoding", "literal_error"),
        ("output", {"quote": ""}, "quote", "string_too_short"),
        ("output", {"delimiter": "||"}, "delimiter", "csv_delimiter_overlaps"),
        ("output", {"delimiter": "aba"}, "delimiter", "csv_delimiter_overlaps"),
        ("output", {"compression": "lz4"}, "compression", "literal_error"),
        ("output", {"multi_line": True}, "multi_line", "unknown_field"),
        ("inputs.flights", {"multi_line": True}, "multi_line", "unknown_field"),
        ("inputs.flights", {"comment": "#"}, "comment", "unknown_field"),
        ("inputs.flights", {"header": False}, "header", "unknown_field"),
    ],
)
def test_what_one_of_them_does_not_have(name: str, csv: dict[str, Any], leaf: str, rule: str) -> None:
    assert refusal(owner(name, "csv", csv))[:2] == (f"{name}.csv.{leaf}", rule)


@pytest.mark.parametrize(
    ("name", "csv"),
    [
        ("inputs.flights", {"quote": ""}),
        ("inputs.flights", {"delimiter": "\\", "escape": '"'}),
        ("inputs.flights", {"delimiter": "||", "empty_value": "-"}),
        ("tables.fees", {"delimiter": "\t", "comment": "#", "encoding": "ISO-8859-1"}),
        ("streams.fees", {"encoding": "UTF-16", "multi_line": True}),
        ("output", {"compression": "gzip", "empty_value": ""}),
    ],
)
def test_what_is_allowed(name: str, csv: dict[str, Any]) -> None:
    check_merged(owner(name, "csv", csv))


@pytest.mark.parametrize("name", OWNERS)
def test_a_job_without_them_is_stored_as_before(name: str) -> None:
    part: Any = check_merged(owner(name, "csv", {})).model_dump(mode="json")
    for key in name.split("."):
        part = part[key]
    assert "csv" not in part
    assert name != "output" or "header" not in part


@pytest.mark.parametrize(
    ("name", "change", "kind"),
    [
        *((name, {"csv": {"null_value": "-"}}, ChangeKind.RESTART) for name in OWNERS[:3]),
        ("output", {"csv": {"null_value": "-"}}, ChangeKind.RESCALE),
        ("output", {"csv": {"compression": "gzip"}}, ChangeKind.RESTART),
        ("output", {"header": False}, ChangeKind.RESCALE),
    ],
)
def test_a_change_costs_what_one_of_the_format_costs(name: str, change: dict[str, Any], kind: ChangeKind) -> None:
    before, after = (owner(name, "csv", **part) for part in ({}, change))
    found = classify(check_merged(before), check_merged(after))
    (leaf,) = (key if isinstance(value, bool) else f"{key}.{next(iter(value))}" for key, value in change.items())
    assert (found.kind, found.names) == (kind, (f"{name}.{leaf}",))


@pytest.mark.parametrize(
    ("changes", "field", "rule"),
    [
        ({"csv": OPTIONS, "value_format": "json"}, "output.csv", "csv_options_of_csv"),
        ({"csv": OPTIONS, "value_format": "avro"}, "output.csv", "csv_options_of_csv"),
        ({"csv": {"delimiter": "||"}}, "output.csv.delimiter", "csv_delimiter_overlaps"),
        ({"csv": {"quote": ""}}, "output.csv.quote", "string_too_short"),
        ({"csv": {"compression": "gzip"}}, "output.csv.compression", "unknown_field"),
        ({"csv": {"header": True}}, "output.csv.header", "unknown_field"),
        ({"header": True}, "output.header", "unknown_field"),
        ({"header": False}, "output.header", "unknown_field"),
        ({"schema_registry": True}, "output.schema_registry", "schema_registry_format"),
    ],
)
def test_a_record_has_no_header_and_is_not_compressed(changes: dict[str, Any], field: str, rule: str) -> None:
    """Nor has it what lines of files cannot have."""
    assert refusal({**job(), "output": {**TOPIC, **changes}})[:2] == (field, rule)


def test_a_change_of_the_options_of_a_record_ends_the_batch_before_in_the_old_form() -> None:
    before, after = ({**job(), "output": {**TOPIC, "csv": csv}} for csv in ({}, OPTIONS))
    found = classify(check_merged(before), check_merged(after))
    assert (found.kind, found.names) == (ChangeKind.RESCALE, tuple(f"output.csv.{name}" for name in sorted(OPTIONS)))
    assert "csv" not in check_merged(before).model_dump(mode="json")["output"]


def test_a_layer_sets_one_of_them() -> None:
    """And the others stay as the layers below have them."""
    check_layer("oncall", {"output": {"csv": {"null_value": "-"}}})
    merged = overlay(owner("output", "csv", OPTIONS), {"output": {"csv": {"null_value": "-"}}})
    assert check_merged(merged).model_dump(mode="json")["output"]["csv"]["delimiter"] == ";"
    with pytest.raises(InvalidConfig, match=r"output\.csv: .*JSON object|output\.csv must be"):
        check_layer("oncall", {"output": {"csv": ";"}})


def test_a_header_is_of_csv() -> None:
    assert refusal(owner("output", "json", header=False))[:2] == ("output.header", "header_of_csv")
