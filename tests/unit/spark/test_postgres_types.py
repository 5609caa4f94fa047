"""Which columns of a table of the user's own keep the values of a query."""

from __future__ import annotations

from contextlib import nullcontext

import pytest

from penstock.control.errors import BrokenTask
from penstock.spark.sinks.postgres_target import require_column_type

LOCAL, INSTANT = "timestamp without time zone", "timestamp with time zone"


@pytest.mark.parametrize(
    ("kind", "found", "fits"),
    [
        ("timestamptz", INSTANT, True),
        ("timestamptz", "text", True),
        ("timestamptz", LOCAL, False),
        ("timestamptz", "date", False),
        ("timestamptz", "time without time zone", False),
        ("timestamptz[]", f"{INSTANT}[]", True),
        ("timestamptz[]", f"{LOCAL}[]", False),
        ("timestamptz[]", INSTANT, False),
        ("timestamp", LOCAL, True),
        ("timestamp", INSTANT, False),
        ("timestamp", "date", False),
        ("date", "date", True),
        ("date", LOCAL, True),
        ("date", INSTANT, False),
        ("integer", "bigint", True),
        ("integer[]", "bigint[]", True),
        ("integer[]", "jsonb", False),
        ("jsonb", "json", True),
        ("jsonb", "text[]", False),
    ],
)
def test_a_column_keeps_the_value_or_is_refused(kind: str, found: str, *, fits: bool) -> None:
    with nullcontext() if fits else pytest.raises(BrokenTask, match="the column c of the table t is"):
        require_column_type("t", "c", kind, found)
