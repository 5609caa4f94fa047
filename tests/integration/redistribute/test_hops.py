"""Chains of jobs whose tasks run apart, stop, and are rescaled: the results are those of a batch query."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from penstock.control.clock import SystemClock
from penstock.control.process import wait_until
from penstock.local.kafka import EmbeddedKafka
from penstock.spark.checkpoint import last_commit
from penstock.spark.redistribute.old import OldGeneration
from penstock.spark.redistribute.positions import task_specs
from penstock.spark.task import RunningTask, Runtime
from tests.support.kafka.sink import committed
from tests.support.spark import batch_functions
from tests.support.spark.chains import SHUFFLE, WINDOWS, batch_answer, chain_of, closing, counts, keyed_by, row_of
from tests.support.spark.hosts import make_topic
from tests.support.spark.redistribution import KEY_GROUPS, Events, Job, Keys, job_config, output_topic

_ROWS = 240
_FAR_APART_MS = 100_000
_LONGER_THAN_SILENCE_S = 5.0


_SHORT = (0, 2)
_CHAINS = [
    pytest.param(seed, hops, marks=() if (seed, hops) == _SHORT else pytest.mark.long)
    for seed in range(3)
    for hops in (2, 3)
]


@pytest.mark.parametrize(("seed", "hops"), _CHAINS)
def test_a_chain_is_exact_whatever_its_tasks_do(runtime: Runtime, kafka: EmbeddedKafka, seed: int, hops: int) -> None:
    """Tasks of each job run or stand still by chance, far beyond the delay; jobs are rescaled up and down meanwhile."""
    dice = random.Random(seed)
    events = Events(kafka.bootstrap, make_topic(kafka.bootstrap, KEY_GROUPS), Keys(runtime.spark, "spark"))
    chain = chain_of(runtime, events, hops, WINDOWS)
    rows: list[tuple[str, int, float]] = []
    for step in range(6):
        fresh = [row_of(events, dice, n) for n in range(step * _ROWS, (step + 1) * _ROWS)]
        events.add(fresh)
        rows += fresh
        for job in chain:
            tasks = range(job.config.task_count)
            # At first one task of the first job stands still while all others run: without marks its rows are late.
            first = [0] if job is chain[0] else tasks
            job.run(first if step == 0 else dice.sample(tasks, dice.randint(0, len(tasks))))
            if dice.random() < 0.3:
                job.rescale(task_count=dice.randint(1, 3))
    events.add(closing(events))
    for job in chain:
        job.run()
    assert counts(chain[-1]) == batch_answer(WINDOWS, rows)


def test_tasks_without_state_that_are_far_apart_are_put_together_and_readers_lose_no_row(
    runtime: Runtime, kafka: EmbeddedKafka
) -> None:
    """1. Of two tasks that pass rows on, one comes far beyond the delay. 2. One task takes over from both, and has
    written some of the rows of the other when the reader reads. 3. Nothing was late."""
    events = Events(kafka.bootstrap, make_topic(kafka.bootstrap, KEY_GROUPS), Keys(runtime.spark, "spark"))
    dice = random.Random(7)
    rows = [row_of(events, dice, n) for n in range(4 * _ROWS)]
    shuffle, reader = chain_of(runtime, events, 2, WINDOWS)
    events.add(rows[:_ROWS])
    shuffle.run()
    events.add(rows[_ROWS:])
    shuffle.run([1])
    assert shuffle.watermark_ms(1) - shuffle.watermark_ms(0) > _FAR_APART_MS
    shuffle.rescale(task_count=1, max_records_per_trigger=10)
    _run_some_batches(runtime, shuffle)
    reader.run()
    shuffle.config = shuffle.config.model_copy(update={"max_records_per_trigger": None})
    shuffle.run()
    events.add(closing(events))
    shuffle.run()
    reader.run()
    assert counts(reader) == batch_answer(WINDOWS, rows)


def _run_some_batches(runtime: Runtime, job: Job) -> None:
    """Runs the one task until it has committed two batches; it has not read all then."""
    task = RunningTask(runtime, task_specs(job.name, job.layout)[0], epoch=1)
    begun = last_commit(task.checkpoint, runtime.files) or 0
    task.claim()
    task.run_until(lambda: (last_commit(task.checkpoint, runtime.files) or 0) >= begun + 2, 60)
    assert not OldGeneration(runtime, job.name, job.layout).has_read_all(0)


@pytest.mark.long
def test_a_reader_of_a_side_output_waits_for_the_slowest_task(
    runtime: Runtime, kafka: EmbeddedKafka, tmp_path: Path
) -> None:
    """1. One of two tasks stands still, far beyond the delay, while the other and the reader run on. 2. It catches up:
    no window of the reader lacks its rows. The job's own output is a table, and one side output never gets a row."""
    events = Events(kafka.bootstrap, make_topic(kafka.bootstrap, KEY_GROUPS), Keys(runtime.spark, "spark"))
    middle = {
        "type": "kafka",
        "topic": make_topic(kafka.bootstrap, KEY_GROUPS),
        "key_columns": ["v"],
        "key_groups": KEY_GROUPS,
    }
    sides = {
        "middle": {"output": middle},
        "never": {"where": "v < 0", "output": {"type": "kafka", "topic": make_topic(kafka.bootstrap, 1)}},
    }
    table = {"type": "delta", "path": str(tmp_path / "table")}
    config = job_config(
        {"events": events.topic}, "spark", table, query={"sql": SHUFFLE}, task_count=2, side_outputs=sides
    )
    first = Job(runtime, keyed_by(config, "k"))
    last = job_config(
        {"events": middle["topic"]}, "spark", output_topic(kafka.bootstrap), query={"sql": WINDOWS}, task_count=2
    )
    reader = Job(runtime, keyed_by(last, "v"))
    dice, rows = random.Random(7), []
    for step, tasks in enumerate(([1], [1], [0], [0, 1])):
        fresh = [row_of(events, dice, n) for n in range(step * _ROWS, (step + 1) * _ROWS)]
        events.add(fresh)
        rows += fresh
        first.run(tasks)
        reader.run()
    events.add(closing(events))
    first.run()
    reader.run()
    assert counts(reader) == batch_answer(WINDOWS, rows)
    assert runtime.spark.read.format("delta").load(str(tmp_path / "table")).count() == len(rows) + len(closing(events))


@pytest.mark.long  # longer than an idle query is silent
def test_no_topic_says_that_a_batch_was_read_before_it_has_its_rows(
    runtime: Runtime, kafka: EmbeddedKafka, tmp_path: Path
) -> None:
    """1. A task that passes rows on has written to both of its topics. 2. In the next batch the first has the rows, and
    a function holds up the second, which speaks of that batch only with its rows."""
    events = Events(kafka.bootstrap, make_topic(kafka.bootstrap, KEY_GROUPS), Keys(runtime.spark, "spark"))
    # Of one task: a batch has all rows of the second step, or none.
    (first,) = chain_of(runtime, events, 2, WINDOWS)[:1]
    first.config = first.config.model_copy(update={"task_count": 1})
    topics = [make_topic(kafka.bootstrap, 1) for _ in range(2)]
    sides = {
        "a": {"output": {"type": "kafka", "topic": topics[0]}},
        "b": {"output": {"type": "foreach_batch", "python": f"{batch_functions.__name__}:waits"}},
    }
    middle = {"type": "kafka", "topic": topics[1]}
    more = {"query": {"sql": SHUFFLE}, "side_outputs": sides, "args": {"folder": str(tmp_path)}}
    config = job_config({"events": first.config.output.topic}, "spark", middle, **more)
    source = {"event_time_column": None, "watermark_delay": None, "key_columns": ("v",)}
    inputs = {"events": config.inputs["events"].model_copy(update=source)}
    job = Job(runtime, config.model_copy(update={"inputs": inputs}))
    _pass_on(first, events, 0)
    task = RunningTask(runtime, task_specs(job.name, job.layout)[0], epoch=1)
    task.start()
    try:
        early = wait_until(lambda: _newest_marks(kafka.bootstrap, topics, 1), 60, "marks of both topics")
        (tmp_path / "wait").touch()
        _pass_on(first, events, 5000)
        wait_until((tmp_path / "waits").exists, 60, "the function to wait")
        clock = SystemClock()
        over = clock.monotonic() + _LONGER_THAN_SILENCE_S
        wait_until(lambda: clock.monotonic() > over, 60, "idle topics to say how far they are")
        held = _newest_marks(kafka.bootstrap, topics, 1)
        (tmp_path / "wait").unlink()
        late = wait_until(lambda: _newest_marks(kafka.bootstrap, topics, early[1] + 1), 60, "the mark of the batch")
    finally:
        task.stop(finish_pending=False)
    assert held[0] > early[0]
    assert held[1] == early[1] < held[0]
    assert late[1] == late[0]


def _pass_on(first: Job, events: Events, seconds: float) -> None:
    events.add((key, 1, seconds) for key in events.keys.one_of_each_group())
    first.run()


def _newest_marks(bootstrap: str, topics: Sequence[str], least: int) -> list[int]:
    """The times of the newest marks of the topics; nothing while one is below `least`."""
    found = []
    for topic in topics:
        marks = [json.loads(message.value() or b"{}") for message in committed(bootstrap, f"{topic}.penstock-marks")]
        found.append(max((mark.get("t", 0) for mark in marks), default=0))
    return found if min(found) >= least else []
