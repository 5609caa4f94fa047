"""Inputs that are not what the job says: partitions, key functions, malformed records, null keys. On a real broker."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions
from py4j.protocol import Py4JJavaError
from pyspark.errors.exceptions.captured import StreamingQueryException
from pyspark.sql import functions as F

from penstock.config.model import FilesOutput
from penstock.control.errors import BrokenTask
from penstock.control.process import wait_until
from penstock.local.kafka import EmbeddedKafka
from penstock.spark.checkpoint import is_clean, last_commit
from penstock.spark.failures import Failure, failure_of
from penstock.spark.files import LOCAL_FILES
from penstock.spark.initialize import initialize
from penstock.spark.inputs.key_sample import key_function_problem
from penstock.spark.inputs.watch import SAMPLE_SECONDS, InputWatch
from penstock.spark.redistribute.positions import task_specs
from penstock.spark.task import RunningTask, Runtime
from penstock.tasks.sinks import SinkRequest
from tests.support.control.clock import FakeClock
from tests.support.spark.hosts import make_topic
from tests.support.spark.redistribution import KEY_GROUPS, Job, job_config, output_topic, records_of
from tests.support.spark.session import forget_last_commit

COPY = {"sql": "SELECT k, v FROM events"}
SUM = {"sql": "SELECT k, count(*) AS c, sum(v) AS s FROM events GROUP BY k"}
AT = "2026-01-01T00:00:00Z"


def make_job(kafka: EmbeddedKafka, runtime: Runtime, topic: str, query: dict[str, str], **source: Any) -> Job:
    """A job over `topic` with fields of its input and, as `job`, of its own."""
    more = source.pop("job", {})
    config = job_config({"events": topic}, "none", output_topic(kafka.bootstrap), query=query, **more)
    events = config.inputs["events"].model_copy(update={"key_columns": ("k",), **source})
    return Job(runtime, config.model_copy(update={"inputs": {"events": events}}))


def produce(
    kafka: EmbeddedKafka, topic: str, records: Iterable[tuple[str | None, Any]], partition: int | None = None
) -> None:
    """Keys and values; a value that is no text is sent as JSON. librdkafka's default partitioner, or one partition."""
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    for key, value in records:
        body = value if isinstance(value, str | bytes | None) else json.dumps(value)
        where = {} if partition is None else {"partition": partition}
        producer.produce(topic, key=key, value=body, **where)
    assert producer.flush(30) == 0


def row(number: int) -> tuple[str, dict[str, Any]]:
    key = f"k{number % 40}"
    return key, {"k": key, "v": number, "at": AT}


def start(job: Job, index: int = 0) -> None:
    RunningTask(job.runtime, task_specs(job.name, job.layout)[index], epoch=1).start()


def test_a_topic_with_other_partitions_than_key_groups_is_refused_at_each_start(
    runtime: Runtime, kafka: EmbeddedKafka
) -> None:
    topic = make_topic(kafka.bootstrap, 4)
    job = make_job(kafka, runtime, topic, COPY, key_groups=2)
    with pytest.raises(BrokenTask, match=r"inputs\.events\.key_groups is 2, but the topic \S+ has 4 partitions"):
        start(job)
    with pytest.raises(BrokenTask, match=r"so 2 would not be read: set it to 4"):
        initialize(runtime, SinkRequest(job=job.name, revision=1, config=job.config))
    with pytest.raises(BrokenTask, match=r"inputs\.events: there is no topic nobody-made-it"):
        start(make_job(kafka, runtime, "nobody-made-it", COPY))


@pytest.mark.long
def test_partitions_that_are_added_later_are_taken_in_and_read_from_their_beginning(
    runtime: Runtime, kafka: EmbeddedKafka
) -> None:
    """1. Two tasks read a topic of 2 partitions. 2. It grows, and rows come into the new ones. 3. `key_groups` grows
    too, and all rows are there once. 4. A job that keeps state in two tasks is refused, as its keys have moved."""
    topic = make_topic(kafka.bootstrap, 2)
    job = make_job(kafka, runtime, topic, COPY, key_groups=2, job={"task_count": 2})
    summing = make_job(kafka, runtime, topic, SUM, key_groups=2, key_function="crc32", job={"task_count": 2})
    summing.config = summing.config.model_copy(update={"output_mode": "update"})
    produce(kafka, topic, map(row, range(100)))
    job.run()
    summing.run()
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    admin.create_partitions([NewPartitions(topic, 4)])[topic].result(30)
    for partition in (2, 3):
        produce(kafka, topic, map(row, range(100 * partition, 100 * partition + 50)), partition)
    with pytest.raises(BrokenTask, match="so 2 would not be read"):
        start(job)
    four = {"events": job.config.inputs["events"].model_copy(update={"key_groups": 4})}
    job.rescale(inputs=four, task_count=3)
    job.run()
    assert sorted(dict(each)["v"] for each in job.rows().elements()) == [
        *range(100),
        *range(200, 250),
        *range(300, 350),
    ]
    with pytest.raises(BrokenTask, match="keeps state in several tasks"):
        summing.rescale(inputs={"events": summing.config.inputs["events"].model_copy(update={"key_groups": 4})})


@pytest.mark.long
def test_the_hash_of_librdkafka_is_told_and_then_state_moves(runtime: Runtime, kafka: EmbeddedKafka) -> None:
    """1. A job says murmur2: refused before its first batch, with the function that fits. 2. A job that said it before
    the check goes on as `crc32`, with a rescale."""
    topic = make_topic(kafka.bootstrap, KEY_GROUPS)
    produce(kafka, topic, map(row, range(200)))
    job = make_job(kafka, runtime, topic, SUM, key_function="kafka", job={"output_mode": "update", "task_count": 2})
    with pytest.raises(BrokenTask, match=r"inputs\.events\.key_function is kafka, but .* set key_function to crc32"):
        start(job)
    job.run()
    crc32 = {"events": job.config.inputs["events"].model_copy(update={"key_function": "crc32"})}
    assert job.rescale(inputs=crc32, task_count=3).state_rows == 40
    produce(kafka, topic, map(row, range(200, 400)))
    job.run()
    assert job.last_rows("k") == job.unsplit().last_rows("k")


@pytest.mark.long
def test_keys_that_spark_placed_by_another_type_are_told(runtime: Runtime, kafka: EmbeddedKafka) -> None:
    """1. Records are where Spark's hash of a BIGINT puts them. 2. A reader that says so is right, one that reads an INT
    is refused. 3. So is one of a topic of another producer."""
    topic, other = make_topic(kafka.bootstrap, KEY_GROUPS), make_topic(kafka.bootstrap, KEY_GROUPS)
    produce(kafka, other, map(row, range(40)))
    placed = runtime.spark.range(40).select("id", F.pmod(F.hash("id"), F.lit(KEY_GROUPS))).collect()
    for number, partition in placed:
        produce(kafka, topic, [row(number)], partition)
    by_v = {"key_function": "spark", "key_columns": ("v",)}

    def told(topic: str, **source: Any) -> str | None:
        events = make_job(kafka, runtime, topic, COPY, **by_v, **source).config.inputs["events"]
        problem = key_function_problem("events", events, events.full_topic, kafka.bootstrap, runtime.spark)
        return None if problem is None else problem.detail

    assert told(topic) is None
    as_int = {"value_schema": "k STRING, v INT, at TIMESTAMP"}
    wrong = told(topic, **as_int)
    assert wrong is not None
    assert "give the key columns the types that they have in the job that writes the topic" in wrong
    assert "set key_function to crc32" in str(told(other))
    with pytest.raises(BrokenTask, match=r"inputs\.events\.key_function is spark, but only \d+ of \d+ sampled keys"):
        start(make_job(kafka, runtime, topic, COPY, **by_v, **as_int))


def test_a_producer_that_changes_its_hash_is_told_of_running_tasks(runtime: Runtime, kafka: EmbeddedKafka) -> None:
    """1. Keys are where the job says, and its task runs: nothing is told. 2. The producer takes another hash: told once
    the topic's turn to be sampled comes, with the function that fits. The task runs on."""
    topic = make_topic(kafka.bootstrap, KEY_GROUPS)
    produce(kafka, topic, map(row, range(400)))
    job = make_job(kafka, runtime, topic, COPY, key_function="crc32")
    (spec,) = task_specs(job.name, job.layout)
    task = RunningTask(runtime, spec, epoch=1)
    task.start()
    try:
        clock = FakeClock()
        watch = InputWatch(runtime.spark, runtime.settings.cluster, clock)
        assert watch.check([spec]) == {spec.task_id: {}}
        producer = Producer({"bootstrap.servers": kafka.bootstrap, "partitioner": "murmur2_random"})
        for key, value in map(row, range(2000)):
            producer.produce(topic, key=key, value=json.dumps(value))
        assert producer.flush(30) == 0
        assert watch.check([spec]) == {spec.task_id: {}}
        clock.seconds += SAMPLE_SECONDS
        found = watch.check([spec])[spec.task_id]
        assert found.keys() == {"key_function_mismatch"}
        told = found["key_function_mismatch"]
        assert told.startswith("inputs.events.key_function is crc32, but only ")
        assert f"sampled keys of the topic {topic} are in the partition that it gives: " in told
        assert told.endswith("so set key_function to kafka")
        assert task.is_active
    finally:
        task.stop(finish_pending=True)


@pytest.mark.long
def test_a_folder_of_files_that_is_deleted_under_its_job_stops_it_for_good(
    runtime: Runtime, kafka: EmbeddedKafka, tmp_path: Path
) -> None:
    """1. A task has written to its folder. 2. The folder is deleted, on a file system that makes missing ones: the next
    batch is not committed. 3. No start goes on from there. 4. The batch may end, so that the job can be given another
    path."""
    topic = make_topic(kafka.bootstrap, KEY_GROUPS)
    produce(kafka, topic, map(row, range(10)))
    job = make_job(kafka, runtime, topic, COPY)
    job.config = job.config.model_copy(update={"output": FilesOutput(path=str(tmp_path / "out"))})
    job.run()
    (spec,) = task_specs(job.name, job.layout)
    task = RunningTask(runtime, spec, epoch=1)
    task.start()
    committed = last_commit(task.checkpoint, LOCAL_FILES)
    shutil.rmtree(tmp_path / "out")
    (tmp_path / "out/g1/task-0/_spark_metadata").mkdir(parents=True)
    produce(kafka, topic, map(row, range(10, 20)))
    wait_until(lambda: not task.is_active, 60, "the end of the query")
    failure = failure_of(StreamingQueryException(origin=task._query._jsq.exception().get()))  # type: ignore[union-attr]
    assert failure.error_kind == "broken_task"
    assert "was deleted, with the rows that the job had written there" in failure.error
    with pytest.raises(BrokenTask, match=r"output\.path: .*task-0 was deleted"):
        start(job)
    assert last_commit(task.checkpoint, LOCAL_FILES) == committed
    drained = RunningTask(runtime, spec, epoch=1)
    drained.claim()
    drained.finish_pending()
    assert is_clean(task.checkpoint, LOCAL_FILES)
    with pytest.raises(BrokenTask, match="was deleted"):
        start(job)


def failure_after(job: Job) -> Failure:
    """Why the job's task ends."""
    task = RunningTask(job.runtime, task_specs(job.name, job.layout)[0], epoch=1)
    task.claim()
    with pytest.raises(StreamingQueryException) as failed:
        task.run_until(lambda: False, 60)
    return failure_of(failed.value)


def letters(kafka: EmbeddedKafka, topic: str) -> list[dict[str, Any]]:
    """The dead letters: their value, and their headers without the prefix."""
    return [
        {"value": record.value(), **{name.removeprefix("penstock."): text.decode() for name, text in record.headers()}}
        for record in records_of(kafka.bootstrap, topic)
    ]


def test_malformed_json_goes_to_the_dead_letters_once_and_the_query_gets_the_rest(
    runtime: Runtime, kafka: EmbeddedKafka
) -> None:
    """1. Good rows alone, also of a batch that is repeated, make no topic. 2. A tombstone, no JSON, a field of a wrong
    type, an array of rows. 3. The task loses its last commit: the sink skips the batch that it repeats, and the letters
    are written again, never fewer."""
    topic = make_topic(kafka.bootstrap, KEY_GROUPS)
    produce(kafka, topic, map(row, range(30)))
    job = make_job(kafka, runtime, topic, COPY, key_function="crc32")
    job.run()
    forget_last_commit(job.checkpoint(0))
    job.run()
    name = f"{job.name}.dead-letters"
    assert name not in AdminClient({"bootstrap.servers": kafka.bootstrap}).list_topics(timeout=10).topics
    several = json.dumps([row(1)[1], row(2)[1]])
    wrong = [("b", "{oh"), ("c", {"k": "c", "v": "many", "at": AT}), ("d", several)]
    produce(kafka, topic, [("a", None), *wrong], partition=3)
    job.run()
    assert sum(job.rows().values()) == 30
    found = {letter["value"]: letter for letter in letters(kafka, name)}
    assert found.keys() == {b"{oh", json.dumps({"k": "c", "v": "many", "at": AT}).encode(), several.encode()}
    assert found[several.encode()]["reason"] == "the value does not fit value_schema"
    assert found[b"{oh"]["reason"] == "the value is not JSON"
    assert (found[b"{oh"]["topic"], found[b"{oh"]["partition"], found[b"{oh"]["input"]) == (topic, "3", "events")
    (other,) = [letter for value, letter in found.items() if b"many" in value]
    assert other["reason"] == "these fields do not fit value_schema: v bigint"
    forget_last_commit(job.checkpoint(0))
    job.run()
    assert Counter(letter["offset"] for letter in letters(kafka, name)) == Counter(
        2 * [letter["offset"] for letter in found.values()]
    )
    assert sum(job.rows().values()) == 30


@pytest.mark.long
@pytest.mark.parametrize(
    ("source", "values", "good"),
    [
        ({"format": "csv"}, [f"a,1,{AT}", "a,x,y", "a"], 1),
        ({"malformed": "null"}, [{"k": "a", "v": 1, "at": AT}, "{oh", {"k": "a", "v": "x"}, None], 4),
    ],
)
def test_other_formats_and_null(
    runtime: Runtime, kafka: EmbeddedKafka, source: dict[str, Any], values: list[Any], good: int
) -> None:
    topic = make_topic(kafka.bootstrap, KEY_GROUPS)
    produce(kafka, topic, [(None, value) for value in values])
    job = make_job(kafka, runtime, topic, COPY, **source)
    job.run()
    assert sum(job.rows().values()) == good


AVRO = json.dumps(
    {
        "type": "record",
        "name": "R",
        "fields": [
            {"name": "k", "type": "string"},
            {"name": "v", "type": "long"},
            {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        ],
    }
)


def test_a_schema_that_does_not_fit_stops_the_task_before_a_row_is_written(
    runtime: Runtime, kafka: EmbeddedKafka
) -> None:
    """At the latest after the small batch that a task begins with."""
    topic = make_topic(kafka.bootstrap, KEY_GROUPS)
    produce(kafka, topic, map(row, range(1500)), partition=0)
    job = make_job(kafka, runtime, topic, COPY, format="avro", value_schema=AVRO)
    failure = failure_after(job)
    assert failure.error_kind == "broken_task"
    assert "which is more than malformed_limit 0.5: does value_schema fit the topic, and" in failure.error
    assert not (job.checkpoint(0) / "commits/1").exists()
    assert not records_of(kafka.bootstrap, job.config.output.topic)


@pytest.mark.long
def test_a_few_records_that_are_mostly_malformed_stop_the_task_too(runtime: Runtime, kafka: EmbeddedKafka) -> None:
    topic = make_topic(kafka.bootstrap, KEY_GROUPS)
    produce(kafka, topic, [("k", "{oh")] * 150)
    job = make_job(kafka, runtime, topic, COPY)
    assert "150 of 150 records" in failure_after(job).error
    assert len(letters(kafka, f"{job.name}.dead-letters")) == 150
    failing = make_job(kafka, runtime, topic, COPY, malformed="fail")
    assert "does not fit value_schema, and malformed is fail" in failure_after(failing).error


@pytest.mark.long
def test_null_keys_change_no_result_of_a_rescale(runtime: Runtime, kafka: EmbeddedKafka) -> None:
    """1. With `malformed: null` one task counts null keys as a key. 2. Without it, in two tasks: they moved with the
    lowest index; new ones have no task of their own, so they are dead letters. 3. In one task again, they still are."""
    topic = make_topic(kafka.bootstrap, KEY_GROUPS)
    nulls = [(None, {"v": number, "at": AT}) for number in range(12)]
    produce(kafka, topic, map(row, range(80)))
    produce(kafka, topic, nulls, partition=5)
    fields = {"output_mode": "update", "task_count": 1}
    job = make_job(kafka, runtime, topic, SUM, key_function="crc32", malformed="null", job=fields)
    job.run()
    assert {row["k"]: row["c"] for row in map(dict, job.last_rows("k"))}[None] == 12
    events = job.config.inputs["events"].model_copy(update={"malformed": "dead_letter"})
    job.rescale(task_count=2, inputs={"events": events})
    produce(kafka, topic, [*map(row, range(80, 160)), *nulls])
    job.run()
    assert len(letters(kafka, f"{job.name}.dead-letters")) == 12
    job.rescale(task_count=1)
    produce(kafka, topic, nulls)
    job.run()
    found = letters(kafka, f"{job.name}.dead-letters")
    assert len(found) == 24
    assert {letter["reason"].partition(":")[0] for letter in found} == {"the key is null or empty"}
    counts = {row["k"]: row["c"] for row in map(dict, job.last_rows("k"))}
    assert counts == {None: 12, **{f"k{number}": 4 for number in range(40)}}


@pytest.mark.long
def test_a_null_key_that_two_tasks_keep_stops_a_rescale(runtime: Runtime, kafka: EmbeddedKafka) -> None:
    """1. With `malformed: null` each of two tasks counts null keys. 2. Their rows cannot be combined: no rescale, and
    the error says what to do. 3. The tasks go on as they were."""
    topic = make_topic(kafka.bootstrap, KEY_GROUPS)
    nulls = [(None, {"v": 1, "at": AT})] * 2
    for partition in (0, KEY_GROUPS - 1):
        produce(kafka, topic, nulls, partition)
    fields = {"output_mode": "update", "task_count": 2}
    job = make_job(kafka, runtime, topic, SUM, key_function="crc32", malformed="null", job=fields)
    job.run()
    for task_count in (1, 3):
        with pytest.raises(Py4JJavaError) as refused:
            job.rescale(task_count=task_count)
        failure = failure_of(refused.value)
        assert failure.error_kind == "broken_task"
        assert "several tasks keep the null key (null) (operator 0), and their rows cannot be combined" in failure.error
        assert "with malformed: null the query must filter them" in failure.error
    produce(kafka, topic, nulls, 0)
    job.run()
    assert sorted(dict(each)["c"] for each in job.rows().elements()) == [2, 2, 4]


def test_a_query_that_only_one_task_may_run_counts_null_keys(runtime: Runtime, kafka: EmbeddedKafka) -> None:
    topic = make_topic(kafka.bootstrap, KEY_GROUPS)
    produce(kafka, topic, [row(1), (None, {"v": 1, "at": AT})])
    query = {"sql": "SELECT v AS k, count(*) AS c FROM events GROUP BY v"}
    fields = {"output_mode": "update", "task_count": 1}
    job = make_job(kafka, runtime, topic, query, key_function="crc32", job=fields)
    job.run()
    assert [dict(row) for row in job.last_rows("k")] == [{"k": 1, "c": 2}]
