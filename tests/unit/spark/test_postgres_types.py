"""Which columns of a table of the user's own keep the values of a query."""

from __future__ import annotations

from contextlib import nullcontext

import pytest

from penstock.control.errors import BrokenTask
from penstock.spark.sinks.postgres_columns import require_column_type

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
        ("timestamptz", "timestamp(6) with time zone", True),
        ("timestamptz", "timestamp(3) with time zone", False),
        ("timestamp", "timestamp(0) without time zone", False),
        ("timestamp[]", "timestamp(0) without time zone[]", False),
        ("timestamp", "character varying(40)", True),
        ("date", "timestamp(0) without time zone", True),
        ("smallint", "real", True),
        ("integer", "real", False),
        ("integer", "double precision", True),
        ("bigint", "double precision", False),
        ("bigint", "integer", True),
        ("bigint", "numeric", True),
        ("bigint", "numeric(20,0)", True),
        ("bigint", "numeric(20,-2)", False),
        ("bigint", "text", True),
        ("bigint", "money", False),
        ("bigint", "date", False),
        ("bigint[]", "real[]", False),
        ("real", "double precision", True),
        ("real", "numeric", True),
        ("double precision", "double precision", True),
        ("double precision", "real", False),
        ("double precision", "numeric", True),
        ("double precision", "numeric(20,10)", False),
        ("numeric(10,2)", "numeric(10,2)", True),
        ("numeric(10,2)", "numeric(12,4)", True),
        ("numeric(10,2)", "numeric(12,1)", False),
        ("numeric(10,2)", "numeric", True),
        ("numeric(10,2)", "double precision", True),
        ("numeric(16,2)", "double precision", False),
        ("numeric(10,0)", "bigint", True),
        ("numeric(10,2)", "jsonb", True),
        ("text", "character varying(3)", True),
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
