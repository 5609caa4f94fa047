"""State of functions over pandas frames (`applyInPandasWithState`): it goes with its keys, and so do its timeouts.

The answers are made by plain Python over all rows.
"""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from penstock.control.errors import BrokenTask
from penstock.control.process import wait_until
from penstock.local.kafka import EmbeddedKafka
from penstock.spark.redistribute.engine import redistribute
from penstock.spark.redistribute.positions import task_specs
from penstock.spark.savepoint.take import take
from penstock.spark.task import RunningTask, Runtime
from penstock.tasks.redistribution import RedistributionRequest, SavepointName
from penstock.tasks.savepoint import SavepointRequest
from tests.support.spark.hosts import make_topic, quick_start, running_host
from tests.support.spark.pandas_state import Session, extended
from tests.support.spark.redistribution import (
    BEGIN,
    KEY_GROUPS,
    Events,
    Job,
    Keys,
    Row,
    job_config,
    output_topic,
    rows_of_topic,
)

_MODULE = "tests.support.spark.pandas_state"
_KEYS = 18
_SESSION_COLUMNS = ("first", "last", "c", "s")
# Longer than it takes to read the rows, to rescale and to start.
_CLOCK_MS = 30_000
_BEGIN_MS = int(BEGIN.timestamp() * 1000)


def make_job(
    runtime: Runtime, kafka: EmbeddedKafka, function: str, module: str = _MODULE, **more: Any
) -> tuple[Job, Events]:
    keys = Keys(runtime.spark, "spark", _KEYS)
    events = Events(kafka.bootstrap, make_topic(kafka.bootstrap, KEY_GROUPS), keys)
    query = {"python": f"{module}:{function}"}
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
        by_key[key] = extended(by_key.get(key, []), _BEGIN_MS + round(seconds * 1000), value // 2)
    told = ({"k": key, **dict(zip(_SESSION_COLUMNS, one, strict=True))} for key, of in by_key.items() for one in of)
    return Counter(tuple(sorted(row.items())) for row in told)


@pytest.mark.long
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


@pytest.mark.long
@pytest.mark.parametrize("backend", ["heap", "rocksdb"])
def test_a_savepoint_has_the_timeouts(runtime: Runtime, kafka: EmbeddedKafka, backend: str) -> None:
    """1. Two tasks, and a savepoint. 2. Another job of three tasks starts from it, and reads on: together exact."""
    job, events = make_job(runtime, kafka, "sessions", state_backend=backend, task_count=2)
    events.add(rows_of(0, 400))
    job.run()
    take(runtime, SavepointRequest(job=job.name, name="before", number=1, layout=job.layout))
    clone = Job(runtime, job.config.model_copy(update={"task_count": 3}))
    source = job.layout.model_copy(update={"savepoint": SavepointName(job=job.name, name="before")})
    redistribute(runtime, RedistributionRequest(job=clone.name, source=source, target=clone.layout))
    events.add(rows_of(400, 800))
    events.add_far_future()
    clone.run()
    assert job.rows() == all_sessions(800)


@pytest.mark.long
def test_a_host_that_is_killed_with_its_python_workers_loses_no_session(
    runtime: Runtime, kafka: EmbeddedKafka, tmp_path: Path
) -> None:
    """1. A host runs two tasks, and is killed while rows come. 2. This process makes three of them, and reads on."""
    job, events = make_job(runtime, kafka, "sessions", task_count=2)
    settings = runtime.settings.model_copy(update={"spark_local_dir": tmp_path, "spark_conf": quick_start()})
    with running_host("killed", settings, tmp_path) as host:
        for spec in task_specs(job.name, job.layout):
            assert host.start(spec).ok
        for part in range(8):
            events.add(rows_of(part * 100, part * 100 + 100))
            host.wait_for_records(task_specs(job.name, job.layout)[0].task_id, 10 * part + 1)
        host.host.kill()
    job.rescale(task_count=3)
    events.add_far_future()
    job.run()
    assert job.rows() == all_sessions(800)


@pytest.mark.long
@pytest.mark.parametrize("module", [_MODULE, "tests.support.spark.stateful_processor"])
def test_timeouts_and_timers_of_the_clock_move(runtime: Runtime, kafka: EmbeddedKafka, module: str) -> None:
    """1. Two tasks read a row of each key, which is told of a while later. 2. Three tasks tell of every key, once."""
    job, events = make_job(runtime, kafka, "at_clock", module, state_backend="rocksdb", task_count=2)
    events.add((name, _CLOCK_MS, 0) for name in events.keys.names)
    job.run()
    assert not told_by(job)
    job.rescale(task_count=3)
    tasks = [RunningTask(runtime, spec, epoch=1) for spec in task_specs(job.name, job.layout)]
    for task in tasks:
        task.start()
    wait_until(lambda: len(told_by(job)) >= _KEYS, 120, "all keys")
    for task in tasks:
        task.stop(finish_pending=True)
    assert sorted(row["k"] for row in told_by(job)) == sorted(events.keys.names)


def told_by(job: Job) -> list[dict[str, Any]]:
    return rows_of_topic(job.runtime.settings.kafka_bootstrap, job.config.output.topic)


def test_another_key_than_that_of_the_input_is_refused(runtime: Runtime, kafka: EmbeddedKafka) -> None:
    job, events = make_job(runtime, kafka, "sessions_by_value", task_count=2)
    events.add(rows_of(0, 20))
    with pytest.raises(BrokenTask, match=r"applyInPandasWithState in query\.python brings rows with equal"):
        job.run([0])
