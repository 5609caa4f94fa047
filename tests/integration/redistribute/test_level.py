"""Tasks of different watermarks: they are brought to the greatest one in one pass, and results are exact."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from confluent_kafka import Producer

from penstock.config.model import Input
from penstock.control.errors import Unavailable
from penstock.control.process import wait_until
from penstock.local.kafka import EmbeddedKafka
from penstock.local.topics import create_topics
from penstock.spark.checkpoint import last_commit
from penstock.spark.producers import marks_topic
from penstock.spark.redistribute.engine import redistribute
from penstock.spark.redistribute.seal import seal
from penstock.spark.sources import first_beyond
from penstock.spark.task import Runtime
from penstock.tasks.redistribution import SealRequest
from tests.support.kafka.marked import MarkedProducer
from tests.support.spark.hosts import REPLY_SECONDS, make_topic, quick_start, running_host
from tests.support.spark.hosts import run_host_task as run
from tests.support.spark.redistribution import BEGIN, KEY_GROUPS, Events, Job, Keys, job_config, output_topic

WINDOW = {"sql": "SELECT window.start AS w, k, count(*) AS c FROM events GROUP BY window(at, '20 seconds'), k"}
JOIN = {
    "sql": "SELECT a.k, a.v, b.v AS bv FROM events a LEFT JOIN others b "
    "ON a.k = b.k AND b.at BETWEEN a.at AND a.at + INTERVAL 4 SECONDS"
}


_PAUSE_SECONDS = 0.05


def make_job(runtime: Runtime, inputs: Mapping[str, Events], query: dict[str, str], **more: Any) -> Job:
    topics = {name: events.topic for name, events in inputs.items()}
    output = output_topic(runtime.settings.kafka_bootstrap)
    return Job(runtime, job_config(topics, "spark", output, query=query, task_count=2, **more))


def skewed_job(runtime: Runtime, events: Events, **more: Any) -> Job:
    """Of two tasks that both read, then only the second, far beyond the delay; and both have more before them."""
    events.add_range(0, 300)
    job = make_job(runtime, {"events": events}, WINDOW, **more)
    job.run()
    events.add_range(300, 1500)
    job.run([1])
    events.add_range(1500, 3000)
    return job


def in_small_batches(job: Job) -> Job:
    """The same job, but what a task has to read takes it many batches."""
    return replace(job, config=job.config.model_copy(update={"max_records_per_trigger": 20}))


@contextmanager
def endless(events: Events, begin: int) -> Iterator[None]:
    """Rows come all the while, faster than the time in them passes: their event time runs ahead."""
    done, begun = Event(), Event()

    def produce() -> None:
        for lo in count(begin, 30):
            events.add_range(lo, lo + 30)
            begun.set()
            if done.wait(_PAUSE_SECONDS):
                return

    with ThreadPoolExecutor(1) as pool:
        produced = pool.submit(produce)
        begun.wait()
        try:
            yield
        finally:
            done.set()
    produced.result()


def finish_exactly(job: Job, *inputs: Events) -> None:
    """Windows are closed; what the job wrote is what an unsplit run writes, as multisets."""
    for events in inputs:
        events.add_far_future()
    job.run()
    assert job.rows() == job.unsplit().rows()


@pytest.mark.long  # test_level_running.py levels a running task
def test_a_task_that_lags_reads_on_to_the_watermark_of_the_others_and_not_beyond(
    runtime: Runtime, events: Events
) -> None:
    """1. One task lags, and rows keep coming meanwhile. 2. It alone reads, and the watermark stays. 3. Exact."""
    job = skewed_job(runtime, events)
    goal = job.watermark_ms(1)
    with endless(events, 3000):
        report = job.rescale(task_count=3)
    assert (report.levelled, report.behind, report.watermark_ms) == (1, 0, goal)
    finish_exactly(job, events)


@pytest.mark.long
def test_inputs_of_different_delays_are_cut_each_at_its_own(runtime: Runtime, kafka: EmbeddedKafka, keys: Keys) -> None:
    """An outer join: a row read too late would show as one without a partner, or not at all."""
    left, right = (Events(kafka.bootstrap, make_topic(kafka.bootstrap, KEY_GROUPS), keys) for _ in range(2))
    job = make_job(runtime, {"events": left, "others": right}, JOIN)
    later = job.config.inputs["others"].model_copy(update={"watermark_delay": "1 minute"})
    job.config = job.config.model_copy(update={"inputs": {**job.config.inputs, "others": later}})
    for lo, hi, indices in ((0, 300, None), (300, 1800, [1]), (1800, 3000, [])):
        left.add_range(lo, hi)
        right.add_range(lo + 1, hi)
        job.run(indices)
    goal = job.watermark_ms(1)
    report = job.rescale(task_count=3)
    assert (report.levelled, report.watermark_ms) == (1, goal)
    finish_exactly(job, left, right)


@pytest.mark.long
def test_levelling_that_ends_early_is_repeated(runtime: Runtime, events: Events) -> None:
    """1. No time: the message says how much is left. 2. Repeated. 3. Once more: nothing is left."""
    job = skewed_job(runtime, events)
    hurried = replace(runtime, settings=runtime.settings.model_copy(update={"level_timeout_seconds": 0.001}))
    with pytest.raises(Unavailable, match=rf"{job.name}/0 still has [1-9]\d* offsets to read before the common"):
        redistribute(hurried, in_small_batches(job).target(task_count=3))
    goal = job.watermark_ms(1)
    assert job.watermark_ms(0) < goal
    reports = [redistribute(runtime, job.target(task_count=3)), job.rescale(task_count=3)]
    assert [(report.levelled, report.watermark_ms) for report in reports] == [(1, goal), (0, goal)]
    finish_exactly(job, events)


@pytest.mark.long
def test_what_comes_in_after_the_seal_is_not_for_the_old_tasks(runtime: Runtime, events: Events) -> None:
    """1. A task lags, but has read all. 2. Sealed. 3. It gets rows, and the redistribution is asked for again."""
    events.add_range(0, 300)
    job = make_job(runtime, {"events": events}, WINDOW)
    job.run()
    events.add([(events.keys.one_of_each_group()[-1], 1, 500.0)])
    job.run([1])
    request = job.target(task_count=3)
    first = redistribute(runtime, request)
    seal(runtime, SealRequest(job=job.name, layout=request.source))
    events.add_range(300, 600)
    again = redistribute(runtime, request)
    assert (again.levelled, again.watermark_ms) == (first.levelled, first.watermark_ms) == (0, job.watermark_ms(1))


@pytest.mark.long
def test_tasks_whose_watermark_the_inputs_do_not_tell_read_to_the_end(runtime: Runtime, events: Events) -> None:
    """The one that lags reads to the end as it was, and so beyond the other, which then does so too: never more."""
    events.add_range(0, 300)
    job = make_job(runtime, {"events": events}, {"python": "tests.support.spark.redistribution:with_own_watermark"})
    undated = job.config.inputs["events"].model_copy(update={"event_time_column": None, "watermark_delay": None})
    job.config = job.config.model_copy(update={"inputs": {"events": undated}})
    job.run()
    events.add_range(300, 900)
    job.run([1])
    events.add_range(900, 1500)
    report = job.rescale(task_count=3)
    assert (report.levelled, report.behind) == (2, 0)
    finish_exactly(job, events)


@pytest.mark.parametrize(
    ("fields", "values"),
    [
        pytest.param({"format": "raw", "event_time_column": "timestamp"}, ["", "", "", ""], id="raw"),
        pytest.param({"value_schema": "n BIGINT, at TIMESTAMP"}, ['{"at":"%s"}', "{", "{}", '{"at":"%s"}'], id="json"),
        pytest.param(
            {"value_schema": "n BIGINT, at TIMESTAMP", "malformed": "null"},
            ['{"at":"%s","n":"x"}', "{", "{}", '{"at":"%s"} {}'],
            id="nulls",
        ),
        pytest.param(
            {"format": "csv", "value_schema": "n BIGINT, `the at` TIMESTAMP", "event_time_column": "`the at`"},
            ["1,%s", "", "2", "2,%s"],
            id="csv",
        ),
    ],
)
def test_the_first_row_beyond_a_time_is_found_as_the_query_reads_it(
    runtime: Runtime, kafka: EmbeddedKafka, fields: dict[str, str], values: list[str]
) -> None:
    """Rows 0 and 3 have a time in their value; all have one beside it, which only counts in `raw`. With nulls for what
    is malformed, the query gets such rows."""
    topic = make_topic(kafka.bootstrap, 2)
    source = Input.model_validate({"topic": topic, "key_groups": 2, "event_time_column": "at", **fields})
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    for value, second in zip(values, (5, 2, 1, 9), strict=True):
        text = value.replace("%s", f"1970-01-01T00:00:0{second}.001999Z")
        producer.produce(topic, value=text, partition=1, timestamp=second * 1000 + 1)
    assert producer.flush(30) == 0
    settings, spark = runtime.settings, runtime.spark
    found = [
        first_beyond(spark, source, topic, settings, millis, {1: span})
        for millis, span in ((5000, (0, 4)), (5001, (0, 4)), (5000, (1, 3)), (9001, (0, 4)))
    ]
    assert found == [{1: 0}, {1: 3}, {}, {}]


def test_rows_behind_an_open_transaction_are_awaited_when_a_mark_speaks_of_them(
    runtime: Runtime, kafka: EmbeddedKafka, keys: Keys
) -> None:
    """1. A producer has an open transaction in one task's key groups. Behind it are rows of another one, whose mark the
    other task counts. 2. The first task cannot read them: the tasks are not put together. 3. The transaction ends."""
    events = Events(kafka.bootstrap, make_topic(kafka.bootstrap, KEY_GROUPS), keys)
    marks = marks_topic(events.topic)
    assert marks is not None
    create_topics(kafka.bootstrap, {marks: 1})
    first, _, _, last, *_ = keys.one_of_each_group()
    slow, quick = (MarkedProducer(kafka.bootstrap, events.topic, index) for index in range(2))
    for producer, seconds in ((slow, 100), (quick, 200)):
        producer.begin(events.record(key, 1, seconds) for key in (first, last)).say(_millis(seconds)).commit()
    quick.begin([events.record(first, 1, 201)])
    behind = [events.record(first, n, 100 + n) for n in range(50)]
    slow.begin([*behind, events.record(last, 1, 150)]).say(_millis(250)).commit()
    job = make_job(runtime, {"events": events}, WINDOW)
    job.run()
    assert job.watermark_ms(0) < job.watermark_ms(1) - 50_000
    hurried = replace(runtime, settings=runtime.settings.model_copy(update={"level_timeout_seconds": 2.0}))
    with pytest.raises(Unavailable, match="offsets to read before the common watermark"):
        replace(job, runtime=hurried).rescale(task_count=1)
    quick.say(_millis(201)).commit()
    job.rescale(task_count=1)
    finish_exactly(job, events)


def _millis(seconds: int) -> int:
    return int(BEGIN.timestamp() + seconds) * 1000


@pytest.mark.long
def test_drop_late_moves_at_once_and_says_so(runtime: Runtime, events: Events) -> None:
    """Rows that one task has not read are late: windows of its keys are missing, none is there twice."""
    job = skewed_job(runtime, events, completeness="drop_late")
    report = job.rescale(task_count=3)
    assert (report.levelled, report.behind) == (0, 1)
    assert report.watermark_ms is not None
    events.add_far_future()
    job.run()
    windows = Counter((dict(row)["k"], dict(row)["w"]) for row in job.rows().elements())
    assert set(windows.values()) == {1}
    assert windows.keys() < {(dict(row)["k"], dict(row)["w"]) for row in job.unsplit().rows()}


@pytest.mark.long
def test_a_host_that_is_killed_while_a_task_reads_on_is_stood_in_for(
    runtime: Runtime, events: Events, tmp_path: Path
) -> None:
    """1. A host levels, and is killed midway. 2. This process does it again: one pass to the same watermark, exact."""
    job = skewed_job(runtime, events)
    request, goal = in_small_batches(job).target(task_count=3), job.watermark_ms(1)
    before = last_commit(str(job.checkpoint(0)))
    assert before is not None
    own = {"spark_local_dir": tmp_path, "heap_bytes": 600 * 2**20, "spark_conf": quick_start()}
    with running_host("host", runtime.settings.model_copy(update=own), tmp_path) as host:
        answer = host.host.send(run(request))
        begun = job.checkpoint(0) / f"commits/{before + 3}"
        wait_until(begun.exists, REPLY_SECONDS, "the task to read on", poll_s=0.001)
        host.host.kill()
        assert answer.exception(REPLY_SECONDS) is not None
    assert job.watermark_ms(0) < goal
    assert not (job.checkpoint(0).parent.parent / "g2/task-0/offsets").exists()
    report = job.rescale(task_count=3)
    assert (report.levelled, report.watermark_ms) == (1, goal)
    finish_exactly(job, events)
