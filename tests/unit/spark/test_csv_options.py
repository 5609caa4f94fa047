"""The one map from the options of a job to those of Spark."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.config.csv_options import CsvFiles, CsvOutput, CsvRecords, CsvValue
from penstock.config.model import Table
from penstock.spark.csv_options import lines_of, options_of, record_options
from penstock.spark.inputs.misread import Parser
from penstock.spark.tables import reader_options

ALL = {
    "delimiter": ";",
    "quote": "'",
    "escape": '"',
    "null_value": "NULL",
    "empty_value": "-",
    "ignore_leading_white_space": True,
    "ignore_trailing_white_space": True,
}
OF_SPARK = {
    "delimiter": ";",
    "quote": "'",
    "escape": '"',
    "nullValue": "NULL",
    "emptyValue": "-",
    "ignoreLeadingWhiteSpace": "true",
    "ignoreTrailingWhiteSpace": "true",
}


def test_every_option_has_its_name_in_spark() -> None:
    files = CsvFiles.model_validate(ALL | {"comment": "#", "encoding": "UTF-16", "multi_line": True})
    assert options_of(files) == OF_SPARK | {"comment": "#", "encoding": "UTF-16", "multiLine": "true"}
    assert record_options(files) == OF_SPARK == options_of(CsvRecords.model_validate(ALL))
    assert {*ALL} == {*CsvRecords.model_fields}


@pytest.mark.parametrize("csv", [CsvRecords(), CsvFiles(), CsvOutput(), CsvValue()])
def test_what_nobody_asked_for_is_left_to_spark(csv: CsvRecords | CsvOutput | CsvValue) -> None:
    assert options_of(csv) == {}


@pytest.mark.parametrize(
    ("csv", "options"),
    [
        ({"ignore_leading_white_space": False}, {"ignoreLeadingWhiteSpace": "false"}),
        ({"quote": "'"}, {"quote": "'", "emptyValue": "''"}),
        ({"quote": "'", "empty_value": ""}, {"quote": "'", "emptyValue": ""}),
        ({"compression": "gzip", "delimiter": "\t"}, {"compression": "gzip", "delimiter": "\t"}),
    ],
)
def test_an_output(csv: dict[str, Any], options: dict[str, str]) -> None:
    assert options_of(CsvOutput.model_validate(csv)) == options
    if "compression" not in csv:
        assert options_of(CsvValue.model_validate(csv)) == options


def test_a_backslash_is_what_it_is() -> None:
    """Spark takes `\\t` in a delimiter for a tab, and refuses a backslash alone."""
    assert options_of(CsvRecords(delimiter="\\t", escape="'"))["delimiter"] == r"\\t"


def test_a_table_is_read_by_its_options() -> None:
    table = Table(path="/in", format="csv", csv=CsvFiles(delimiter=";", multi_line=True))
    options = {"mode": "FAILFAST", "header": "true", "enforceSchema": "false", "delimiter": ";", "multiLine": "true"}
    assert reader_options(table, "FAILFAST") == options


def test_an_expression_of_spark_has_the_same_options() -> None:
    options = record_options(CsvRecords(delimiter="\\", escape="'", null_value="it's"))
    called = Parser("from_csv", options).call("a INT")
    assert (
        called
        == r"from_csv(CAST(value AS STRING), 'a INT', map('delimiter', '\\\\', 'escape', '\'', 'nullValue', 'it\'s'))"
    )
    assert Parser("from_json").call("a INT") == "from_json(CAST(value AS STRING), 'a INT')"


def test_lines_that_are_no_rows() -> None:
    assert lines_of(CsvFiles(comment="'")).endswith(r"AND NOT startswith(value, '\'')")
    assert "startswith" not in lines_of(CsvFiles())
