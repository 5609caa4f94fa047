"""State of functions over pandas frames (`applyInPandasWithState`): it goes with its keys, and so do its timeouts."""

from __future__ import annotations

import shutil
from collections import Counter
from typing import Any

import pytest

from penstock.control.errors import BrokenTask
from penstock.local.kafka import EmbeddedKafka
from penstock.spark.task import Runtime
from tests.support.spark.hosts import make_topic
from tests.support.spark.pandas_state import Session, extended
from tests.support.spark.redistribution import BEGIN, KEY_GROUPS, Events, Job, Keys, Row, job_config, output_topic

_MODULE = "tests.support.spark.pandas_state"
_KEYS = 18
_SESSION_COLUMNS = ("first", "last", "c", "s")
_BEGIN_MS = int(BEGIN.timestamp() * 1000)


def make_job(runtime: Runtime, kafka: EmbeddedKafka, function: str, **more: Any) -> tuple[Job, Events]:
    keys = Keys(runtime.spark, "spark", _KEYS)
    events = Events(kafka.bootstrap, make_topic(kafka.bootstrap, KEY_GROUPS), keys)
    query = {"python": f"{_MODULE}:{function}"}
    config = job_config({"events": events.topic}, "spark", output_topic(kafka.bootstrap), query=query, **more)
    return Job(runtime, config), events


def rows_of(lo: int, hi: int) -> list[tuple[str, int, float]]:
    """Rows of all keys in turn, up to 3 s out of order; each key is silent for every third stretch of 22 s."""
    found = ((n, n * 7 % _KEYS) for n in range(lo, hi))
    return [(f"k{key}", n, n * 0.25 - n % 4) for n, key in found if (key + n // 90) % 3]


def all_sessions(hi: int) -> Counter[Row]:
    """What the query tells of the first rows up to `hi`, by plain Python over all of them."""
    by_key: dict[str, list[Session]] = {}
    for key, value, seconds in rows_of(0, hi):
        by_key[key] = extended(by_key.get(key, []), _BEGIN_MS + round(seconds * 1000), value)
    told = ({"k": key, **dict(zip(_SESSION_COLUMNS, one, strict=True))} for key, of in by_key.items() for one in of)
    return Counter(tuple(sorted(row.items())) for row in told)


@pytest.mark.parametrize("backend", ["heap", "rocksdb"])
def test_sessions_end_in_the_task_that_has_their_key_now(runtime: Runtime, kafka: EmbeddedKafka, backend: str) -> None:
    """1. Two tasks. 2. Three, from a copy made while they ran; the checkpoints before are gone. 3. One task of two
    threads. 4. Event time ends: the sessions without new rows end by the timeouts that moved with them."""
    job, events = make_job(runtime, kafka, "sessions", state_backend=backend, task_count=2)
    events.add(rows_of(0, 400))
    job.run()
    job.copy(task_count=3)
    events.add(rows_of(400, 800))
    job.run()
    before = job.checkpoint(0).parent
    report = job.rescale(task_count=3)
    assert report.uncopied is None
    shutil.rmtree(before)
    events.add(rows_of(800, 1200))
    job.run()
    job.rescale(task_count=1, threads_per_task=2)
    events.add_far_future()
    job.run()
    assert job.rows() == all_sessions(1200)


def test_another_key_than_that_of_the_input_is_refused(runtime: Runtime, kafka: EmbeddedKafka) -> None:
    job, events = make_job(runtime, kafka, "sessions_by_value", task_count=2)
    events.add(rows_of(0, 20))
    with pytest.raises(BrokenTask, match="applyInPandasWithState in query.python brings rows with equal"):
        job.run([0])
