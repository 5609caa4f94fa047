"""State of `transformWithState` and `transformWithStateInPandas`: variables, timers and TTL go with their keys."""

from __future__ import annotations

import shutil
from collections import Counter

import pytest
from pyspark.errors import StreamingQueryException

from penstock.control.errors import BrokenTask
from penstock.local.kafka import EmbeddedKafka
from penstock.spark.failures import failure_of
from penstock.spark.task import Runtime
from tests.support.spark.hosts import make_topic
from tests.support.spark.redistribution import KEY_GROUPS, Events, Job, Keys, Row, job_config, output_topic

_ROWS = "tests.support.spark.stateful_processor"
_FRAMES = "tests.support.spark.pandas_state"
_KEYS = 18
# Tasks and threads of each generation.
_THERE = ((2, 1), (1, 2))
_AND_BACK = (*_THERE, (2, 1))


def make_job(runtime: Runtime, kafka: EmbeddedKafka, function: str, backend: str) -> tuple[Job, Events]:
    keys = Keys(runtime.spark, "spark", _KEYS)
    events = Events(kafka.bootstrap, make_topic(kafka.bootstrap, KEY_GROUPS), keys)
    config = job_config(
        {"events": events.topic},
        "spark",
        output_topic(kafka.bootstrap),
        query={"python": function},
        output_mode="update",
        state_backend=backend,
        task_count=_THERE[0][0],
    )
    return Job(runtime, config), events


def rows_of(phase: int) -> list[tuple[str, int, float]]:
    """Four rows of each key; of fewer keys in each phase."""
    return [(f"k{key}", phase * 20 + key + n, n + key % 3) for key in range(phase * 6, _KEYS) for n in range(4)]


def told_in_the_end(phases: int) -> Counter[Row]:
    """What the query says of each key once it has all rows."""
    values: dict[str, list[int]] = {}
    for phase in range(phases):
        for key, value, _ in rows_of(phase):
            values.setdefault(key, []).append(value)
    return Counter((("c", len(of)), ("k", key), ("seen", seen(of))) for key, of in values.items())


def seen(values: list[int]) -> str:
    return str((sorted(values), sorted(Counter(value // 10 for value in values).items())))


@pytest.mark.long
@pytest.mark.parametrize(
    ("function", "sizes"),
    [
        (f"{_ROWS}:at_timer", _THERE),
        (f"{_ROWS}:at_timer", _AND_BACK),
        (f"{_ROWS}:with_ttl", _AND_BACK),
        (f"{_FRAMES}:at_timer", _AND_BACK),
        (f"{_FRAMES}:with_ttl", _AND_BACK),
    ],
)
def test_variables_and_timers_move(
    runtime: Runtime, kafka: EmbeddedKafka, function: str, sizes: tuple[tuple[int, int], ...]
) -> None:
    """1. Rows of all keys. 2. Changes of size, after each rows of fewer keys; each time the checkpoints before it
    are gone when the new tasks start. 3. Event time ends. With timers, each key is told of once: those without new
    rows by the timer that moved with them."""
    job, events = make_job(runtime, kafka, function, "rocksdb")
    for phase, (tasks, threads) in enumerate(sizes):
        events.add(rows_of(phase))
        if phase:
            before = job.checkpoint(0).parent
            job.rescale(task_count=tasks, threads_per_task=threads)
            shutil.rmtree(before)
        if phase == len(sizes) - 1 and function.endswith(":at_timer"):
            events.add_far_future()
        job.run()
    told = job.rows() if function.endswith(":at_timer") else job.last_rows("k")
    assert told == told_in_the_end(len(sizes))


@pytest.mark.long
def test_on_the_heap_backend_spark_refuses_it(runtime: Runtime, kafka: EmbeddedKafka) -> None:
    job, events = make_job(runtime, kafka, f"{_ROWS}:with_ttl", "heap")
    events.add_range(0, 6)
    with pytest.raises(StreamingQueryException) as failed:
        job.run([0])
    failure = failure_of(failed.value)
    assert failure.error_kind == "broken_task"
    assert "STORE_BACKEND_NOT_SUPPORTED_FOR_TWS" in failure.error


def test_an_initial_state_is_refused_for_several_tasks(runtime: Runtime, kafka: EmbeddedKafka) -> None:
    job, events = make_job(runtime, kafka, f"{_ROWS}:from_the_start", "rocksdb")
    events.add_range(0, 6)
    with pytest.raises(BrokenTask, match="each of the 2 tasks would take all of it"):
        job.run([0])
