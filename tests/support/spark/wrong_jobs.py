"""Wrong jobs that the rules of every write catch, without a host: what each changes in a right job, what is told.

What only rows show is in no table: division by zero, casts that fail, Python functions that raise for a row, a null
where the output takes none.
"""

from __future__ import annotations

from typing import Any, NamedTuple

FLIGHTS = {
    "topic": "flights",
    "key_groups": 8,
    "value_schema": "dest STRING, carrier STRING, time TIMESTAMP, delay DOUBLE, n INT",
    "key_function": "spark",
    "key_columns": ["dest"],
    "event_time_column": "time",
    "watermark_delay": "10 minutes",
}
BY_INT = FLIGHTS | {"topic": "ints", "key_columns": ["n"]}
BY_BIGINT = BY_INT | {"topic": "bigints", "value_schema": "n BIGINT, time TIMESTAMP, late INT"}
NO_TIME = FLIGHTS | {"event_time_column": None, "watermark_delay": None}
BOTH = {"inputs": {"ints": BY_INT, "bigints": BY_BIGINT}}
TWO = {"inputs": {"weather": FLIGHTS | {"topic": "weather"}}}
UPDATE = {"output_mode": "update"}
SEVERAL = {"task_count": 4}
AGGREGATED = "SELECT dest, count(*) AS c FROM flights GROUP BY dest"


class WrongJob(NamedTuple):
    """`change`: a merge patch of `right_job`. `text` is in what is told."""

    name: str
    change: dict[str, Any]
    field: str
    rule: str
    text: str


def right_job() -> dict[str, Any]:
    """A job without a problem."""
    return {
        "query": {"sql": "SELECT * FROM flights"},
        "inputs": {"flights": FLIGHTS},
        "output": {"type": "kafka", "topic": "wrong-jobs-out"},
    }


def sql(text: str, **more: Any) -> dict[str, Any]:
    """Another query."""
    return {"query": {"sql": text}} | more


def python(function: str, **more: Any) -> dict[str, Any]:
    """A query of the package that the test packs."""
    query = {"sql": None, "python": f"wrong_queries:{function}"}
    return {"query": query, "package": {"name": "wrong", "version": "1"}} | more


RULES = [
    WrongJob("a SQL typo", sql("SELEC * FROM flights"), "query.sql", "sql_syntax", 'line 1, column 9, at "FROM"'),
    WrongJob(
        "too many arguments", sql("SELECT lower(dest, 1) FROM flights"), "query.sql", "sql_syntax", "number of provided"
    ),
    WrongJob("two statements", sql("SELECT 1; SELECT 2"), "query.sql", "one_select", "not 2"),
    WrongJob("an INSERT", sql("INSERT INTO t SELECT * FROM flights"), "query.sql", "one_select", "must be a SELECT"),
    WrongJob("a misspelt input", sql("SELECT * FROM fligths"), "query.sql", "unknown_relation", "reads fligths"),
    WrongJob("foreign code", sql("SELECT reflect('a', 'b') FROM flights"), "query.sql", "foreign_code", "reflect"),
    WrongJob("an unknown argument", sql("SELECT :x FROM flights"), "args.x", "unknown_argument", "args has no x"),
    WrongJob("no query", {"query": {"sql": None}}, "query", "one_query", "exactly one of sql and python"),
    WrongJob(
        "Python without a package",
        {"query": {"sql": None, "python": "a:b"}},
        "package.name",
        "python_needs_package",
        "needs the package",
    ),
    WrongJob(
        "output to a catalog of Postgres",
        {"output": {"topic": None, "type": "postgres", "table": "pg_catalog.pg_authid"}},
        "output.table",
        "reserved_table",
        "a table of Postgres or Penstock itself",
    ),
    WrongJob(
        "output to Penstock's own table",
        {"output": {"topic": None, "type": "postgres", "table": "public.penstock_batches"}},
        "output.table",
        "reserved_table",
        "a table of Postgres or Penstock itself",
    ),
    WrongJob(
        "output to the marks of another topic",
        {"output": {"topic": "orders.penstock-marks"}},
        "output.topic",
        "reserved_topic",
        "a topic of Kafka or Penstock itself",
    ),
    WrongJob(
        "dead letters to a topic of Kafka",
        {"dead_letter_topic": "__transaction_state"},
        "dead_letter_topic",
        "reserved_topic",
        "a topic of Kafka or Penstock itself",
    ),
    WrongJob(
        "a time zone that there is not",
        {"spark_settings": {"spark.sql.session.timeZone": "America/Nowhere"}},
        "spark_settings.spark.sql.session.timeZone",
        "spark_setting_value",
        "a region such as Europe/Berlin",
    ),
    WrongJob("more tasks than key groups", {"task_count": 9}, "task_count", "key_groups", "8 key groups"),
    WrongJob(
        "more tasks than allowed", {"task_count": 3, "max_task_count": 2}, "task_count", "max_task_count", "above"
    ),
    WrongJob(
        "inputs of different sizes",
        {"inputs": {"weather": FLIGHTS | {"key_groups": 4}}},
        "inputs.weather.key_groups",
        "equal_key_groups",
        "inputs.flights has 8",
    ),
    WrongJob("a number as text", {"task_count": "4"}, "task_count", "int_type", "allowed: integer, 1 to 10000"),
    WrongJob("a misspelt field", {"task_cuont": 4}, "task_cuont", "unknown_field", "not permitted"),
    WrongJob(
        "a schema with a typo",
        {"inputs": {"flights": {"value_schema": "dest STRNG"}}},
        "inputs.flights.value_schema",
        "value_schema_ddl",
        "no type strng",
    ),
    WrongJob(
        "no schema",
        {"inputs": {"flights": {"value_schema": None}}},
        "inputs.flights.value_schema",
        "value_schema_required",
        "needs a schema",
    ),
    WrongJob(
        "an unknown key column",
        {"inputs": {"flights": {"key_columns": ["to"]}}},
        "inputs.flights.key_columns",
        "unknown_column",
        "names to",
    ),
    WrongJob(
        "an unknown event time",
        {"inputs": {"flights": {"event_time_column": "at"}}},
        "inputs.flights.event_time_column",
        "unknown_column",
        "names at",
    ),
    WrongJob(
        "a watermark without event time",
        {"inputs": {"flights": {"event_time_column": None}}},
        "inputs.flights.event_time_column",
        "watermark_pair",
        "needs an event_time_column",
    ),
    WrongJob(
        "an Avro schema that is none",
        {"inputs": {"flights": {"format": "avro"}}},
        "inputs.flights.value_schema",
        "avro_schema_json",
        "must be JSON",
    ),
    WrongJob(
        "files in update mode",
        sql(AGGREGATED, output={"type": "files", "path": "/x", "topic": None}, **UPDATE),
        "output_mode",
        "append_only",
        "append mode",
    ),
    WrongJob(
        "upserts without a key",
        sql(AGGREGATED, output={"type": "postgres", "table": "t", "topic": None}, **UPDATE),
        "output.upsert_columns",
        "upsert_columns_required",
        "must name its key",
    ),
    WrongJob(
        "a setting of the whole host",
        {"spark_settings": {"spark.executor.memory": "9g"}},
        "spark_settings.spark.executor.memory",
        "spark_setting_not_allowed",
        "may not set",
    ),
    WrongJob(
        "a table path without its argument",
        {"tables": {"t": {"path": "/t/${day}"}}},
        "tables.t.path",
        "unknown_argument",
        "no day",
    ),
]
