"""Chains of jobs, each a shuffle by another key but the last, which counts in windows or sessions; and what a batch
query gives for the same rows."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Any

import duckdb

from penstock.config.model import JobConfig
from penstock.spark.task import Runtime
from tests.support.spark.hosts import make_topic
from tests.support.spark.redistribution import BEGIN, KEY_GROUPS, Events, Job, job_config, output_topic, rows_of_topic

SHUFFLE = "SELECT k, v, at FROM events"
WINDOWS = "SELECT window.end AS until, v, count(*) AS c FROM events GROUP BY window(at, '20 seconds'), v"
SESSIONS = (
    "SELECT session_window.end AS until, v, count(*) AS c FROM events GROUP BY session_window(at, '5 seconds'), v"
)
_IN_BATCH = {
    WINDOWS: "SELECT (us // 20000000 + 1) * 20000000 AS until, v, count(*) FROM events GROUP BY ALL",
    SESSIONS: """
        WITH gaps AS (SELECT *, coalesce(us - lag(us) OVER one >= 5000000, true) AS begins FROM events
                      WINDOW one AS (PARTITION BY v ORDER BY us)),
             numbered AS (SELECT *, sum(begins::INT) OVER (PARTITION BY v ORDER BY us) AS session FROM gaps)
        SELECT max(us) + 5000000 AS until, v, count(*) FROM numbered GROUP BY v, session""",
}
_VALUES = 12
_FAR_S = 1_000_000

Row = tuple[str, int, float]
"""Key, value, and seconds after `BEGIN`."""


def chain_of(runtime: Runtime, events: Events, hops: int, last: str) -> list[Job]:
    """`hops` jobs of two tasks each; the last one runs the query `last` over what comes in by the value."""
    jobs, topic = [], events.topic
    for hop in range(hops - 1):
        key = ("v", "k")[hop % 2] if hops % 2 == 0 else ("k", "v")[hop % 2]
        output = {
            "type": "kafka",
            "topic": make_topic(events.bootstrap, KEY_GROUPS),
            "key_columns": [key],
            "key_groups": KEY_GROUPS,
        }
        config = job_config({"events": topic}, "spark", output, query={"sql": SHUFFLE}, task_count=2)
        jobs.append(Job(runtime, keyed_by(config, ("k", "v")[key == "k"] if hop else "k")))
        topic = output["topic"]
    counted = job_config({"events": topic}, "spark", output_topic(events.bootstrap), query={"sql": last}, task_count=2)
    return [*jobs, Job(runtime, keyed_by(counted, "v"))]


def keyed_by(config: JobConfig, column: str) -> JobConfig:
    """The job with another key of its input."""
    fields: dict[str, Any] = config.model_dump(mode="json")
    fields["inputs"]["events"]["key_columns"] = [column]
    return JobConfig.model_validate(fields)


def row_of(events: Events, dice: random.Random, n: int) -> Row:
    """A row whose time grows with `n`, out of order by up to 6 s."""
    return dice.choice(events.keys.names), n % _VALUES, n * 0.25 + dice.uniform(-3, 3) + 10


def closing(events: Events) -> list[Row]:
    """Rows that close every window of every task, whatever the key."""
    return [(key, v, _FAR_S) for key in events.keys.one_of_each_group() for v in range(_VALUES)]


def batch_answer(query: str, rows: Sequence[Row]) -> Counter[tuple[int, int]]:
    """What DuckDB counts by the end in microseconds after `BEGIN`, and the value."""
    with duckdb.connect() as batch:
        batch.execute("CREATE TABLE events (us BIGINT, v BIGINT)")
        batch.executemany("INSERT INTO events VALUES (?, ?)", [(_micros(seconds), v) for _, v, seconds in rows])
        return _by_end(batch.execute(_IN_BATCH[query]).fetchall())


def counts(job: Job) -> Counter[tuple[int, int]]:
    """The same of what the job wrote, but for what `closing` rows may have opened."""
    written = rows_of_topic(job.runtime.settings.kafka_bootstrap, job.config.output.topic)
    ends = ((_micros_of(row["until"]), row["v"], row["c"]) for row in written)
    return _by_end(row for row in ends if row[0] < _FAR_S * 1_000_000)


def _by_end(rows: Iterable[Sequence[int]]) -> Counter[tuple[int, int]]:
    found = [((until, v), count) for until, v, count in rows]
    counted = Counter(dict(found))
    assert len(counted) == len(found), "a window was counted twice"
    return counted


def _micros(seconds: float) -> int:
    return timedelta(seconds=seconds) // timedelta(microseconds=1)


def _micros_of(text: str) -> int:
    return (type(BEGIN).fromisoformat(text.replace("Z", "+00:00")) - BEGIN) // timedelta(microseconds=1)
