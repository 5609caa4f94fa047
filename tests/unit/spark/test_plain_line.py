"""Which forms of CSV have lines that need no parser of Spark."""

from __future__ import annotations

import pytest

from penstock.config.csv_options import CsvRecords
from penstock.spark.inputs.plain import PlainLine, plain_line


@pytest.mark.parametrize(
    ("csv", "expected"),
    [
        ({}, PlainLine(",", '"\\', "")),
        ({"delimiter": "\t", "quote": "", "null_value": "-"}, PlainLine("\t", "\\", "-")),
        ({"delimiter": ";", "quote": "'", "escape": "'"}, PlainLine(";", "''", "")),
        ({"delimiter": "||"}, None),
        ({"delimiter": "¦"}, None),
        ({"quote": "«"}, None),
        ({"ignore_leading_white_space": True}, None),
        ({"ignore_trailing_white_space": True}, None),
    ],
)
def test_a_line_is_plain_without_quotes_and_escapes(csv: dict[str, object], expected: PlainLine | None) -> None:
    assert plain_line(CsvRecords.model_validate(csv)) == expected
