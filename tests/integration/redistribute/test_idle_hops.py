"""A chain that falls idle: its last results come out, without a record that closes them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import duckdb
import pytest

from penstock.config.model import JobConfig
from penstock.control.process import wait_until
from penstock.spark.redistribute.positions import task_specs
from penstock.spark.task import RunningTask, Runtime
from tests.support.spark.chains import SHUFFLE, counts
from tests.support.spark.hosts import make_topic
from tests.support.spark.redistribution import KEY_GROUPS, Events, Job, job_config, output_topic

_WINDOWS = "SELECT v, window.end AS at, count(*) AS c FROM events GROUP BY window(at, '4 seconds'), v"
_WINDOWS_OF_WINDOWS = """
    SELECT v, window.end AS until, CAST(sum(c) AS BIGINT) AS c FROM events GROUP BY window(at, '8 seconds'), v"""
_IN_BATCH = """
    WITH first AS (SELECT v, (us // 4000000 + 1) * 4000000 AS ends, count(*) AS c FROM events GROUP BY ALL)
    SELECT (ends // 8000000 + 1) * 8000000 AS until, v, sum(c) FROM first GROUP BY ALL"""
_VALUES, _ROWS = 12, 600


@pytest.mark.long  # the time-outs of two jobs, one after the other
def test_the_last_windows_of_windows_come_when_all_is_idle(runtime: Runtime, events: Events) -> None:
    """1. A shuffle, windows, and windows of these; of two tasks each. The second task of the shuffle has no rows of the
    last half: what it says while it is idle lets the others go on. 2. Nothing comes any more. Each window comes out,
    once, and none before all of its rows were in it."""
    rows = list(_rows(events))
    events.add(rows)
    chain = _chain(runtime, events)
    with _running(chain):
        due = _due(rows)
        wait_until(lambda: counts(chain[-1]).keys() >= due.keys(), 240, "the last windows", poll_s=1)
    assert counts(chain[-1]) == due


def _rows(events: Events) -> Iterator[tuple[str, int, float]]:
    """In half a minute, out of order by less than the delay."""
    of_first = [key for key, group in events.keys.group_of.items() if group < KEY_GROUPS // 2]
    for number in range(_ROWS):
        keys = events.keys.names if number < _ROWS // 2 else of_first
        yield keys[number % len(keys)], number % _VALUES, number * 0.05 + number % 7 * 0.1


def _due(rows: Sequence[tuple[str, int, float]]) -> Counter[tuple[int, int]]:
    with duckdb.connect() as batch:
        batch.execute("CREATE TABLE events (us BIGINT, v BIGINT)")
        batch.executemany("INSERT INTO events VALUES (?, ?)", [(round(at * 1_000_000), v) for _, v, at in rows])
        return Counter({(until, v): int(count) for until, v, count in batch.execute(_IN_BATCH).fetchall()})


def _chain(runtime: Runtime, events: Events) -> list[Job]:
    """Each job writes by `v`."""
    jobs, topic = [], events.topic
    inputs = ({"key_columns": ["k"]}, {}, {"value_schema": "v BIGINT, at TIMESTAMP, c BIGINT"})
    for sql, source in zip((SHUFFLE, _WINDOWS, _WINDOWS_OF_WINDOWS), inputs, strict=True):
        output = _by_value(events.bootstrap) if len(jobs) < 2 else output_topic(events.bootstrap)
        config = job_config({"events": topic}, "spark", output, query={"sql": sql}, task_count=2)
        jobs.append(Job(runtime, _idle_soon(config, {"key_columns": ["v"], **source})))
        topic = config.output.topic
    return jobs


def _by_value(bootstrap: str) -> dict[str, Any]:
    topic = make_topic(bootstrap, KEY_GROUPS)
    return {"type": "kafka", "topic": topic, "key_columns": ["v"], "key_groups": KEY_GROUPS}


def _idle_soon(config: JobConfig, source: Mapping[str, Any]) -> JobConfig:
    fields: dict[str, Any] = config.model_dump(mode="json")
    fields["inputs"]["events"] |= {"watermark_delay": "1 second", "idle_timeout_seconds": 2.0, **source}
    return JobConfig.model_validate(fields | {"trigger_interval_seconds": 0.3})


@contextmanager
def _running(chain: list[Job]) -> Iterator[None]:
    tasks = [RunningTask(job.runtime, spec, epoch=1) for job in chain for spec in task_specs(job.name, job.layout)]
    try:
        for task in tasks:
            task.start()
        yield
    finally:
        for task in tasks:
            task.stop(finish_pending=False)
