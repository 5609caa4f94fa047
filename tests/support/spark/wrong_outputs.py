"""Wrong jobs whose tables or output Spark's analysis refuses."""

from __future__ import annotations

from tests.support.spark.wrong_jobs import WrongJob, sql

OUTPUTS = [
    WrongJob(
        "a table that is missing",
        {"tables": {"planes": {"path": "file:/nowhere/planes"}}},
        "tables.planes.path",
        "table_exists",
        "nowhere/planes",
    ),
    WrongJob(
        "a Delta table that is missing",
        {"tables": {"planes": {"path": "file:/nowhere/planes", "format": "delta"}}},
        "tables.planes.path",
        "table_exists",
        "nowhere/planes",
    ),
    WrongJob(
        "a table schema with a typo",
        {"tables": {"planes": {"path": "file:/nowhere", "table_schema": "a STRNG"}}},
        "tables.planes.path",
        "unsupported_datatype",
        "STRNG",
    ),
    WrongJob(
        "a table on an unknown file system",
        {"tables": {"planes": {"path": "s4://bucket/planes"}}},
        "tables.planes.path",
        "can_run",
        "s4",
    ),
    WrongJob(
        "an output key that the query lacks",
        {"output": {"key_columns": ["to"], "key_groups": 4}},
        "output.key_columns",
        "known_column",
        "no column to; they have dest",
    ),
    WrongJob(
        "a topic of another size",
        {"output": {"topic": "{topic}", "key_columns": ["dest"], "key_groups": 5}},
        "output.key_groups",
        "can_run",
        "has 3 partitions, not 5",
    ),
    WrongJob(
        "two columns of one name",
        sql("SELECT dest, carrier AS DEST FROM flights"),
        "query.sql",
        "distinct_columns",
        "dest is there more than once",
    ),
    WrongJob(
        "an array in CSV",
        sql(
            "SELECT array(dest) AS dests FROM flights",
            output={"type": "files", "path": "/x", "format": "csv", "topic": None},
        ),
        "output",
        "unsupported_data_type_for_datasource",
        "dests",
    ),
    WrongJob(
        "a Delta partition that the query lacks",
        {"output": {"type": "delta", "path": "/nowhere", "partition_columns": ["day"], "topic": None}},
        "output.partition_columns",
        "known_column",
        "no column day",
    ),
    WrongJob(
        "a Delta key that the query lacks",
        {"output": {"type": "delta", "path": "/nowhere", "upsert_columns": ["day"], "topic": None}},
        "output.upsert_columns",
        "known_column",
        "no column day",
    ),
    WrongJob(
        "a folder below a file",
        {"output": {"type": "files", "path": "file:/etc/passwd/out", "topic": None}},
        "output.path",
        "path_writable",
        "/etc/passwd is not a folder",
    ),
    WrongJob(
        "a Delta table below a file",
        {"output": {"type": "delta", "path": "file:/etc/passwd/out", "topic": None}},
        "output.path",
        "path_writable",
        "/etc/passwd is not a folder",
    ),
    WrongJob(
        "an unknown connection",
        {"output": {"type": "postgres", "connection": "prod", "table": "t", "topic": None}},
        "output.connection",
        "known_connection",
        "no connection prod",
    ),
    WrongJob(
        "a type that Postgres lacks",
        sql("SELECT INTERVAL 1 DAY AS i FROM flights", output={"type": "postgres", "table": "t", "topic": None}),
        "query.sql",
        "can_run",
        "no Postgres type",
    ),
    WrongJob(
        "a table without the columns",
        {"output": {"type": "postgres", "table": "narrow", "topic": None}},
        "output.table",
        "can_run",
        "has no column carrier",
    ),
    WrongJob(
        "an upsert without a unique key",
        sql(
            "SELECT dest FROM flights",
            output={"type": "postgres", "table": "narrow", "upsert_columns": ["dest"], "topic": None},
        ),
        "output",
        "can_run",
        "no unique or exclusion constraint",
    ),
]
