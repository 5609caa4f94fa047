"""Every Spark type that has a Postgres counterpart arrives as it was, whatever is in it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from math import inf, isnan
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from penstock.control.errors import BrokenTask
from penstock.spark.sinks.batch_marker import Marker
from penstock.spark.sinks.copy_text import copy_line, postgres_type
from penstock.spark.sinks.postgres import PostgresSink
from penstock.spark.sinks.postgres_connections import ConnectionPool
from penstock.spark.sinks.postgres_target import MarkerKey, Target
from penstock.spark.sinks.spool import spooled

_TEXTS = [
    "",
    " ",
    "\\",
    "\\N",
    "NULL",
    "null",
    "a\tb",
    "a\nb",
    "a\rb",
    "\\.",
    "'",
    '"',
    "{",
    "}",
    ",",
    "ä€😀",
    "\\t",
    "\x01",
]
_TYPE = """
SELECT format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = 'target'::regclass AND attname = 'v'
"""


@pytest.fixture
def pool(empty_database_url: str) -> Iterator[ConnectionPool]:
    pool = ConnectionPool(empty_database_url)
    yield pool
    pool.close()


@pytest.mark.parametrize(
    ("expression", "postgres", "expected"),
    [
        ("true", "boolean", True),
        ("CAST(-128 AS tinyint)", "smallint", -128),
        ("CAST(-32768 AS smallint)", "smallint", -32768),
        ("CAST(-2147483648 AS int)", "integer", -2147483648),
        ("CAST(9223372036854775807 AS bigint)", "bigint", 9223372036854775807),
        ("CAST(0.1 AS float)", "real", 0.1),
        ("CAST(0.1 AS double)", "double precision", 0.1),
        ("1.7976931348623157E308D", "double precision", 1.7976931348623157e308),
        ("4.9E-324D", "double precision", 5e-324),
        ("double('-Infinity')", "double precision", -inf),
        ("float('Infinity')", "real", inf),
        ("CAST('0.000000000000000001' AS decimal(38,18))", "numeric(38,18)", Decimal("0.000000000000000001")),
        ("CAST('-99999999999999999999.5' AS decimal(38,18))", "numeric(38,18)", Decimal("-99999999999999999999.5")),
        ("CAST(12 AS decimal(5,0))", "numeric(5,0)", Decimal(12)),
        ("'plain'", "text", "plain"),
        ("X'00FF5C0A'", "bytea", b"\x00\xff\\\n"),
        ("DATE'2013-01-01'", "date", date(2013, 1, 1)),
        ("DATE'0001-01-01'", "date", date(1, 1, 1)),
        (
            "TIMESTAMP'2013-06-01 05:15:00.123456Z'",
            "timestamp with time zone",
            datetime(2013, 6, 1, 5, 15, 0, 123456, UTC),
        ),
        (
            "TIMESTAMP_NTZ'2013-06-01 05:15:00.123456'",
            "timestamp without time zone",
            datetime(2013, 6, 1, 5, 15, 0, 123456),
        ),
        ("array(1, NULL, 3)", "integer[]", [1, None, 3]),
        ("array_remove(array('a'), 'a')", "text[]", []),
        ("array(double('NaN'), 1.5D)", "double precision[]", ["nan", 1.5]),
        ("array(X'5C22', NULL)", "bytea[]", [b'\\"', None]),
        (
            "array(TIMESTAMP'2013-06-01 05:15:00Z')",
            "timestamp with time zone[]",
            [datetime(2013, 6, 1, 5, 15, tzinfo=UTC)],
        ),
        ("array(true, false)", "boolean[]", [True, False]),
        ("array(array(1, 2), array(3))", "jsonb", [[1, 2], [3]]),
        ("map('k', 1, 'n', NULL)", "jsonb", {"k": 1, "n": None}),
        (
            "named_struct('a', NULL, 't', TIMESTAMP'2013-06-01 05:15:00.123456Z', 's', 'q\"\\\\')",
            "jsonb",
            {"a": None, "t": "2013-06-01T05:15:00.123456Z", "s": 'q"\\'},
        ),
        ("named_struct('x', double('NaN'))", "jsonb", {"x": "NaN"}),
        ("parse_json('{\"a\": [1, null]}')", "jsonb", {"a": [1, None]}),
    ],
)
def test_values(spark: SparkSession, pool: ConnectionPool, expression: str, postgres: str, expected: Any) -> None:
    frame = spark.sql(f"SELECT 1 AS id, {expression} AS v UNION ALL SELECT 2, NULL")
    write(pool, frame)
    assert ask(pool, _TYPE) == [postgres]
    given, null = ask(pool, "SELECT v FROM target ORDER BY id")
    assert null is None
    assert _comparable(given) == (pytest.approx(expected, rel=1e-7) if postgres == "real" else expected)
    assert type(given) is type(expected)


def test_not_a_number(spark: SparkSession, pool: ConnectionPool) -> None:
    write(pool, spark.sql("SELECT double('NaN') AS d, float('NaN') AS f"))
    assert all(isnan(value) for value in ask(pool, "SELECT unnest(ARRAY[d, f]) FROM target"))


def test_any_text_in_columns_arrays_and_json(spark: SparkSession, pool: ConnectionPool) -> None:
    rows = [(number, text, [text, None, text + "x"], {"key": text}) for number, text in enumerate(_TEXTS)]
    frame = spark.createDataFrame(rows, 'id int, t string, a array<string>, `odd "name\\` map<string,string>')
    write(pool, frame)
    with pool.link() as link:
        found = link.execute("SELECT * FROM target ORDER BY id").fetchall()
    assert found == rows


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "America/New_York", "Asia/Kathmandu"])
def test_timestamps_do_not_depend_on_the_sessions_zone(spark: SparkSession, pool: ConnectionPool, zone: str) -> None:
    """The hour that a clock shows twice, and a year before standard time, whose offset has seconds."""
    moments = [
        datetime(2013, 10, 27, 0, 30, tzinfo=UTC),
        datetime(2013, 10, 27, 1, 30, tzinfo=UTC),
        datetime(2013, 11, 3, 5, 30, tzinfo=UTC),
        datetime(2013, 11, 3, 6, 30, tzinfo=UTC),
        datetime(1850, 1, 1, 12, 0, 0, 1, tzinfo=UTC),
    ]
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", zone)
    micros = [(moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1) for moment in moments]
    frame = session.createDataFrame([(micro,) for micro in micros], "m bigint")
    write(pool, frame.selectExpr("m", "timestamp_micros(m) AS t"))
    assert ask(pool, "SELECT t FROM target ORDER BY m") == sorted(moments)


@pytest.mark.long
def test_many_rows_in_many_partitions(spark: SparkSession, pool: ConnectionPool) -> None:
    """More rows than an Arrow batch takes, more bytes than the spool keeps in memory, and an empty partition."""
    frame = spark.range(0, 200_000, 1, 7).selectExpr("id", "repeat('x', 100) AS filler").where("id >= 40000")
    write(pool, frame)
    assert ask(pool, "SELECT sum(id) + sum(length(filler)) FROM target") == [sum(range(40_000, 200_000)) + 16_000_000]


def test_no_rows(spark: SparkSession, pool: ConnectionPool) -> None:
    write(pool, spark.sql("SELECT 1 AS id, 'x' AS v WHERE false"))
    assert ask(pool, "SELECT count(*) FROM target") == [0]
    assert ask(pool, "SELECT batch_id FROM penstock_batches") == [0]


@pytest.mark.parametrize(
    ("kind", "column"),
    [
        ("bigint", "real"),
        ("numeric(10,2)", "numeric(10,1)"),
        ("double precision", "cents"),
        ("timestamp", "timestamp(0)"),
        ("timestamptz[]", "timestamptz(3)[]"),
    ],
)
def test_a_column_that_would_round_is_refused(pool: ConnectionPool, kind: str, column: str) -> None:
    """In a table of the user's own, also behind a domain. Postgres would take the values without a word."""
    with pool.link() as link:
        link.execute("CREATE DOMAIN cents AS numeric(10,2)")
        link.execute(f"CREATE TABLE target (v {column})".encode())
    with pool.link() as link, pytest.raises(BrokenTask, match=r"the column v of the table target is (real|\w+\(\d)"):
        Target("target", {"v": kind}, ()).ensure(link, "job")


@pytest.mark.parametrize("expression", ["NULL", "INTERVAL '1' MONTH", "array(INTERVAL '1' DAY)[0]"])
def test_types_without_a_counterpart(spark: SparkSession, expression: str) -> None:
    frame = spark.sql(f"SELECT {expression} AS v")
    with pytest.raises(BrokenTask, match=r"column v of type .* cast it in the query"):
        postgres_type(frame.schema["v"].dataType, "v")


def write(pool: ConnectionPool, frame: DataFrame) -> None:
    """Writes a batch of a stream as the sink does, to a new table `target`."""
    columns = {field.name: postgres_type(field.dataType, field.name) for field in frame.schema.fields}
    line = copy_line(frame.schema)
    sink = PostgresSink(pool, Target("target", columns, ()), MarkerKey("job", 0, 1), line)
    sink.prepare()
    with spooled(frame, line) as rows:
        sink.store(rows, Marker(0, "query"))


def ask(pool: ConnectionPool, query: str) -> list[Any]:
    """The first column of a query's rows."""
    with pool.link() as link:
        return [row[0] for row in link.execute(query.encode()).fetchall()]


def _comparable(value: Any) -> Any:
    if isinstance(value, list):
        return ["nan" if isinstance(item, float) and isnan(item) else item for item in value]
    return value
