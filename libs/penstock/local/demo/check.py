"""Is the streamed result the batch answer? Each job's output, row by row, against DuckDB on the same input.

Times are compared as UTC without zone: DuckDB's own zones need an extension that it would download.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import duckdb
import orjson
import pandas as pd
import psycopg
from confluent_kafka import Consumer, TopicPartition
from deltalake import DeltaTable

from penstock.local.demo import data
from penstock.local.demo.feed import ENRICHED
from penstock.store.engine import libpq_url

EXPECTED = {
    "enrich": """
        SELECT f.flight_id, f.time_hour::TIMESTAMP AS time_hour, f.carrier, f.flight, f.tailnum, f.origin, f.dest,
               f.dep_delay, f.arr_delay, f.distance, p.manufacturer, p.model, p.seats, 2013 - p.year AS plane_age
        FROM flights f LEFT JOIN planes p ON f.tailnum = p.tailnum WHERE f.dep_time IS NOT NULL""",
    "hourly": """
        SELECT dest, time_hour::TIMESTAMP AS hour, count(*) AS flights, count(dep_delay) AS departed,
               sum(dep_delay)::BIGINT AS total_dep_delay, max(arr_delay) AS worst_arr_delay
        FROM flights GROUP BY dest, time_hour""",
    "delays": """
        SELECT dest, count(*) AS flights, count(arr_delay) AS arrived, sum(arr_delay)::BIGINT AS total_arr_delay,
               avg(arr_delay) AS mean_arr_delay, max(arr_delay) AS worst_arr_delay
        FROM flights GROUP BY dest""",
}


@dataclass(frozen=True)
class Comparison:
    """One job's result against the batch answer. `repeats`: rows delivered again (at-least-once sinks only)."""

    job: str
    rows: int
    missing: int
    unexpected: int
    repeats: int
    examples: tuple[str, ...]

    @property
    def exact(self) -> bool:
        """Nothing missing, nothing different."""
        return self.missing == 0 and self.unexpected == 0

    def line(self) -> str:
        """One line for people."""
        verdict = "exact" if self.exact else f"WRONG: {self.missing} missing, {self.unexpected} unexpected"
        repeated = f", {self.repeats} rows delivered again (at-least-once sink)" if self.repeats else ""
        return f"{self.job}: {self.rows} rows, {verdict}{repeated}"


def compare(job: str, actual: pd.DataFrame, *, repeats_allowed: bool) -> Comparison:
    """Compares as multisets of rows; as sets when the sink may repeat rows, which are then counted."""
    database = _batch_answer(job)
    columns = database.execute("DESCRIBE expected").fetchall()
    names = ", ".join(column for column, *_ in columns)
    casts = ", ".join(f"{name}::{kind} AS {name}" for name, kind, *_ in columns)
    database.register("delivered", actual)
    database.execute(f"CREATE TABLE all_rows AS SELECT {casts} FROM delivered")
    database.execute(f"CREATE TABLE actual AS SELECT {'DISTINCT' if repeats_allowed else ''} {names} FROM all_rows")
    missing = database.execute("FROM expected EXCEPT ALL FROM actual").fetchall()
    unexpected = database.execute("FROM actual EXCEPT ALL FROM expected").fetchall()
    examples = tuple([f"missing {row}" for row in missing[:3]] + [f"unexpected {row}" for row in unexpected[:3]])
    rows, kept = _count(database, "all_rows"), _count(database, "actual")
    return Comparison(job, kept, len(missing), len(unexpected), rows - kept, examples)


def _batch_answer(job: str) -> duckdb.DuckDBPyConnection:
    """A database with the table `expected`: the job's query over the whole input at once."""
    database = duckdb.connect()
    database.register("flights", data.flights())
    database.register("planes", data.planes())
    return database.execute(f"CREATE TABLE expected AS {EXPECTED[job]}")


def _count(database: duckdb.DuckDBPyConnection, table: str) -> int:
    row = database.execute(f"SELECT count(*) FROM {table}").fetchone()
    return int(row[0]) if row else 0


def read_enriched(bootstrap: str) -> pd.DataFrame:
    """Every record of the enriched topic."""
    return pd.DataFrame((orjson.loads(value) for value in _values(bootstrap, ENRICHED)), columns=_columns("enrich"))


def read_hourly(path: Path) -> pd.DataFrame:
    """The Delta table of hourly statistics; empty until a first window closed."""
    if not DeltaTable.is_deltatable(str(path)):
        return pd.DataFrame(columns=_columns("hourly"))
    frame: pd.DataFrame = DeltaTable(str(path)).to_pandas()
    return frame.assign(hour=frame["hour"].dt.tz_convert("UTC").dt.tz_localize(None))


def read_delays(database_url: str) -> pd.DataFrame:
    """The Postgres table of delays by destination."""
    columns = ", ".join(_columns("delays"))
    with psycopg.connect(libpq_url(database_url)) as connection:
        if connection.execute("SELECT to_regclass('delays')").fetchone() == (None,):
            return pd.DataFrame(columns=_columns("delays"))
        rows = connection.execute(f"SELECT {columns} FROM delays".encode()).fetchall()
    return pd.DataFrame(rows, columns=_columns("delays"))


def _columns(job: str) -> list[str]:
    return [str(name) for name, *_ in _batch_answer(job).execute("DESCRIBE expected").fetchall()]


def _values(bootstrap: str, topic: str) -> Iterator[bytes]:
    """The committed values of a topic from its beginning to its present end."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "penstock-demo-check", "enable.auto.commit": False}
    )
    try:
        partitions = [TopicPartition(topic, p, 0) for p in consumer.list_topics(topic, 10).topics[topic].partitions]
        ends = {p.partition: consumer.get_watermark_offsets(p, 10)[1] for p in partitions}
        consumer.assign(partitions)
        while any(p.offset < ends[p.partition] for p in consumer.position(partitions) if ends[p.partition] > 0):
            for message in consumer.consume(10_000, 0.5):
                value = message.value()
                if message.error() is None and value is not None:
                    yield value
    finally:
        consumer.close()
