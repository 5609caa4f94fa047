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
from confluent_kafka import Consumer, KafkaError, TopicPartition
from deltalake import DeltaTable

from penstock.control.errors import Unavailable
from penstock.local.demo import data
from penstock.local.demo.feed import ENRICHED
from penstock.store.address import libpq_url

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
        SELECT carrier, count(*) AS flights, count(arr_delay) AS arrived, sum(arr_delay)::BIGINT AS total_arr_delay,
               avg(arr_delay) AS mean_arr_delay, max(arr_delay) AS worst_arr_delay
        FROM flights WHERE dep_time IS NOT NULL GROUP BY carrier""",
}


_READER: dict[str, str | int | bool] = {
    "group.id": "penstock-demo-check",
    "enable.auto.commit": False,
    "enable.partition.eof": True,
    "isolation.level": "read_committed",
}


@dataclass(frozen=True)
class Comparison:
    """One job's result against the batch answer; a row that is there twice counts as unexpected."""

    job: str
    rows: int
    missing: int
    unexpected: int
    examples: tuple[str, ...]

    @property
    def exact(self) -> bool:
        """Nothing missing, nothing different, nothing twice."""
        return self.missing == 0 and self.unexpected == 0

    def line(self) -> str:
        verdict = "exact" if self.exact else f"WRONG: {self.missing} missing, {self.unexpected} unexpected"
        return f"{self.job}: {self.rows} rows, {verdict}"


def compare(job: str, delivered: pd.DataFrame) -> Comparison:
    """Compares what a job delivered with the batch answer, as multisets of rows."""
    database = _batch_answer(job)
    columns = database.execute("DESCRIBE expected").fetchall()
    casts = ", ".join(f"{name}::{kind} AS {name}" for name, kind, *_ in columns)
    database.register("delivered", delivered)
    database.execute(f"CREATE TABLE actual AS SELECT {casts} FROM delivered")
    missing = database.execute("FROM expected EXCEPT ALL FROM actual").fetchall()
    unexpected = database.execute("FROM actual EXCEPT ALL FROM expected").fetchall()
    examples = tuple([f"missing {row}" for row in missing[:3]] + [f"unexpected {row}" for row in unexpected[:3]])
    return Comparison(job, len(delivered), len(missing), len(unexpected), examples)


def _batch_answer(job: str) -> duckdb.DuckDBPyConnection:
    """A database with the table `expected`: the job's query over the whole input at once."""
    database = duckdb.connect()
    database.register("flights", data.flights())
    database.register("planes", data.planes())
    return database.execute(f"CREATE TABLE expected AS {EXPECTED[job]}")


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


def topic_ends(bootstrap: str, topic: str) -> dict[int, int]:
    """The end offset of each partition of a topic."""
    consumer = Consumer(_READER | {"bootstrap.servers": bootstrap})
    try:
        partitions = consumer.list_topics(topic, 10).topics[topic].partitions
        return {number: consumer.get_watermark_offsets(TopicPartition(topic, number), 10)[1] for number in partitions}
    finally:
        consumer.close()


def _values(bootstrap: str, topic: str) -> Iterator[bytes]:
    """The committed values of a topic from its beginning to its present end.

    The end is where the broker says it is: offsets also count the markers of transactions, which nobody receives.
    """
    consumer = Consumer(_READER | {"bootstrap.servers": bootstrap})
    try:
        partitions = consumer.list_topics(topic, 10).topics[topic].partitions
        consumer.assign([TopicPartition(topic, partition, 0) for partition in partitions])
        unread = set(partitions)
        while unread:
            for message in consumer.consume(10_000, 0.5):
                value, error = message.value(), message.error()
                if error is not None and error.code() == KafkaError._PARTITION_EOF:
                    unread.discard(message.partition())
                elif error is not None:
                    raise Unavailable(f"kafka: {error}")
                elif value is not None:
                    yield value
    finally:
        consumer.close()
