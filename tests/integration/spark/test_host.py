"""Tasks on one host, with real Kafka: start, resume, stop, settle, fail, and what a query can read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from time import monotonic
from typing import Any

import pandas as pd
import pytest
from confluent_kafka import Producer
from google.protobuf.descriptor_pb2 import FileDescriptorProto

from penstock.config.model import JobConfig
from penstock.control.process import wait_until
from penstock.local.kafka import EmbeddedKafka
from penstock.spark.channel import Live, Reply, Stop
from penstock.spark.checkpoint import is_clean, last_commit, planned_batch
from penstock.tasks.analysis import AnalysisReport, AnalysisRequest
from tests.support.kafka.avro import record as avro_record
from tests.support.kafka.protobuf import field, message, text, with_imports
from tests.support.spark.hosts import (
    REPLY_SECONDS,
    Supervisor,
    job_config,
    make_topic,
    produce,
    rows_of_files,
    run_host_task,
    slow_query,
    task_spec,
)
from tests.support.spark.word_package import packed_words

KEY_GROUPS = 4


@pytest.fixture(scope="module")
def folder(shared_folder: Path) -> Path:
    return shared_folder


@pytest.fixture(scope="module")
def host(shared_host: Supervisor) -> Supervisor:
    return shared_host


@pytest.fixture
def topic(kafka: EmbeddedKafka) -> str:
    return make_topic(kafka.bootstrap, KEY_GROUPS)


def numbers(lo: int, hi: int) -> Iterator[dict[str, Any]]:
    return ({"n": n, "word": f"w{n % 7}", "at": f"2024-01-01T00:{n % 60:02d}:00Z"} for n in range(lo, hi))


def files_job(topic: str, folder: Path, job: str, **more: Any) -> JobConfig:
    return job_config(topic, KEY_GROUPS, {"type": "files", "path": str(folder / "out" / job)}, **more)


def read(folder: Path, job: str, index: int = 0) -> pd.DataFrame:
    return rows_of_files(folder / "out" / job / "g1" / f"task-{index}")


def started(reply: Reply) -> dict[str, Any]:
    assert reply.ok, reply.error
    return reply.result


def test_each_task_reads_exactly_its_key_groups(
    host: Supervisor, kafka: EmbeddedKafka, topic: str, folder: Path
) -> None:
    """1. Rows are there. 2. Two tasks start. 3. Each has read its two key groups, all of them, once."""
    produce(kafka.bootstrap, topic, numbers(0, 400), KEY_GROUPS)
    config = files_job(topic, folder, "split", task_count=2)
    for index in range(2):
        started(host.start(task_spec("split", config, index)))
    for index in range(2):
        progress = host.wait_for_records(f"split/{index}", 200)
        assert progress.input_rows_per_second > 0
        assert progress.processed_rows_per_second is None, "the first batches do not say how fast the task works"
        assert progress.offsets[topic] == {str(2 * index): 100, str(2 * index + 1): 100}
        host.stop(f"split/{index}")
        expected = [n for n in range(400) if n % KEY_GROUPS // 2 == index]
        assert sorted(read(folder, "split", index)["n"]) == expected


@pytest.mark.long
def test_a_rate_is_known_once_the_query_and_the_host_are_warm(
    host: Supervisor, kafka: EmbeddedKafka, topic: str, folder: Path
) -> None:
    """1. The first rows are read: no rate, and nothing is unread. 2. Rows come and are read bit by bit. What waits came
    after the first rows were read. 3. There is a rate, and not before the third batch with rows."""
    config = files_job(topic, folder, "warm", max_records_per_trigger=10, trigger_interval_seconds=1.0)
    produce(kafka.bootstrap, topic, numbers(0, 8), KEY_GROUPS)
    began = monotonic()
    started(host.start(task_spec("warm", config)))
    first = host.wait_for_records("warm/0", 8)
    assert (first.processed_rows_per_second, first.backlog_records) == (None, 0)
    produce(kafka.bootstrap, topic, numbers(8, 1000), KEY_GROUPS)
    told: list[Any] = []

    def is_known() -> Any:
        told.append(host.progress["warm/0"])
        return told[-1].processed_rows_per_second

    assert wait_until(is_known, 90.0, "a rate") > 0
    assert told[-1].batch_id >= 2
    waiting = [each.oldest_unread_at_most_seconds for each in told if each.backlog_records]
    assert waiting, "rows waited"
    assert all(0 < seconds <= monotonic() - began for seconds in waiting)
    host.stop("warm/0")


def test_a_task_goes_on_where_it_was_stopped(host: Supervisor, kafka: EmbeddedKafka, topic: str, folder: Path) -> None:
    produce(kafka.bootstrap, topic, numbers(0, 100), KEY_GROUPS)
    spec = task_spec("resume", files_job(topic, folder, "resume"))
    tokens = []
    for round_number in range(3):
        tokens.append(started(host.start(spec))["token"])
        host.wait_for_records(spec.task_id, 100 * (round_number + 1))
        assert host.stop(spec.task_id, finish_pending=True).result["clean"]
        produce(kafka.bootstrap, topic, numbers(100 * (round_number + 1), 100 * (round_number + 2)), KEY_GROUPS)
    assert tokens == ["1.1", "1.2", "1.3"]
    assert sorted(read(folder, "resume")["n"]) == list(range(300))


def test_a_stop_in_mid_batch_is_settled_to_exactly_that_batch(
    host: Supervisor, kafka: EmbeddedKafka, topic: str, folder: Path
) -> None:
    """1. A batch of 2 s runs. 2. Stop with settle. 3. The batch was replayed and committed, the rows are there once,
    rows that came later were not read."""
    produce(kafka.bootstrap, topic, numbers(0, 4), KEY_GROUPS)
    config = files_job(topic, folder, "settle", threads_per_task=1, **slow_query(folder, 1000))
    spec = task_spec("settle", config)
    checkpoint = started(host.start(spec))["checkpoint"]
    wait_for_plan(checkpoint)
    produce(kafka.bootstrap, topic, numbers(4, 8), KEY_GROUPS)
    reply = host.stop(spec.task_id, finish_pending=True)
    assert reply.ok, reply.error
    assert reply.result == {"was_running": True, "clean": True, "last_offset": 0, "last_commit": 0}
    assert sorted(read(folder, "settle")["n"]) == [0, 1, 2, 3]


@pytest.mark.long
def test_a_stop_without_settle_leaves_the_batch_to_the_next_start(
    host: Supervisor, kafka: EmbeddedKafka, topic: str, folder: Path
) -> None:
    produce(kafka.bootstrap, topic, numbers(0, 4), KEY_GROUPS)
    spec = task_spec("dirty", files_job(topic, folder, "dirty", **slow_query(folder, 1000)))
    checkpoint = started(host.start(spec))["checkpoint"]
    wait_for_plan(checkpoint)
    reply = host.stop(spec.task_id)
    assert reply.result == {"was_running": True, "clean": False, "last_offset": 0, "last_commit": None}
    assert not is_clean(checkpoint)
    started(host.start(spec))
    host.wait_for_records(spec.task_id, 4)
    host.stop(spec.task_id, finish_pending=True)
    assert sorted(read(folder, "dirty")["n"]) == [0, 1, 2, 3]


def wait_for_plan(checkpoint: str) -> None:
    from_start = Path(checkpoint, "offsets", "0")
    wait_until(from_start.exists, 60, "the batch to be planned")


def test_a_bad_query_is_refused_with_the_words_of_spark(host: Supervisor, topic: str, folder: Path) -> None:
    config = files_job(topic, folder, "bad", query={"sql": "SELECT nowhere FROM events"})
    reply = host.start(task_spec("bad", config))
    assert (reply.ok, reply.error_kind) == (False, "broken_task")
    assert "`nowhere` cannot be resolved" in str(reply.error)
    assert host.host.is_alive


def test_a_job_is_analysed_without_starting_it(host: Supervisor, topic: str, folder: Path) -> None:
    config = files_job(topic, folder, "analysed", query={"sql": "SELECT nowhere FROM events"})
    reply = host.host.send(run_host_task(AnalysisRequest(job="analysed", number=7, config=config)))
    report = AnalysisReport.model_validate(reply.result(REPLY_SECONDS).result)
    assert [problem.rule for problem in report.problems] == ["unresolved_column"]


def test_a_query_that_fails_later_ends_alone(host: Supervisor, kafka: EmbeddedKafka, topic: str, folder: Path) -> None:
    """1. A good and a bad one run. 2. A row breaks the bad one. 3. It is reported; the good one goes on."""
    good = task_spec("good", files_job(topic, folder, "good"))
    bad = task_spec(
        "breaks", files_job(topic, folder, "breaks", query={"sql": "SELECT 100 / (n - 7) AS x FROM events"})
    )
    for spec in (good, bad):
        started(host.start(spec))
    produce(kafka.bootstrap, topic, numbers(0, 8), KEY_GROUPS)
    ended = host.next_ended()
    assert (ended.task_id, ended.error_kind, ended.out_of_memory) == ("breaks/0", "broken_task", False)
    assert "DIVIDE_BY_ZERO" in ended.error
    host.wait_for_records("good/0", 8)
    assert host.stop("breaks/0").result == {"was_running": False}
    host.stop("good/0", finish_pending=True)
    assert len(read(folder, "good")) == 8


def test_a_missing_topic_is_refused(host: Supervisor, folder: Path) -> None:
    reply = host.start(task_spec("lost", files_job("no-such-topic", folder, "lost")))
    assert (reply.ok, reply.error_kind) == (False, "broken_task")
    assert "inputs.events: there is no topic no-such-topic" in str(reply.error)


def test_a_start_may_be_repeated_but_not_changed(host: Supervisor, topic: str, folder: Path) -> None:
    spec = task_spec("twice", files_job(topic, folder, "twice"))
    assert started(host.start(spec, 3)) == started(host.start(spec, 3))
    other = host.start(spec.model_copy(update={"revision": 2}), 3)
    assert (other.ok, other.error_kind) == (False, "retryable")
    live = host.host.send(Live(id=0, spec=spec.model_copy(update={"revision": 9}))).result(REPLY_SECONDS)
    assert live.result["revision"] == 9
    host.stop("twice/0")


def test_an_older_epoch_cannot_start(host: Supervisor, topic: str, folder: Path) -> None:
    spec = task_spec("epochs", files_job(topic, folder, "epochs"))
    started(host.start(spec, 8))
    host.stop(spec.task_id)
    reply = host.start(spec, 7)
    assert (reply.ok, reply.error_kind) == (False, "fenced")


@pytest.mark.long
def test_many_tasks_start_and_stop_at_once(host: Supervisor, kafka: EmbeddedKafka, topic: str, folder: Path) -> None:
    produce(kafka.bootstrap, topic, numbers(0, 40), KEY_GROUPS)
    specs = [task_spec(f"many{number}", files_job(topic, folder, f"many{number}")) for number in range(5)]
    for reply in [host.send_start(spec) for spec in specs]:
        started(reply.result(REPLY_SECONDS))
    for spec in specs:
        host.wait_for_records(spec.task_id, 40)
    stops = [host.host.send(Stop(id=0, task_id=spec.task_id, finish_pending=True)) for spec in specs]
    assert all(stop.result(REPLY_SECONDS).result["clean"] for stop in stops)
    assert all(sorted(read(folder, spec.job)["n"]) == list(range(40)) for spec in specs)


@pytest.mark.long
def test_windows_with_a_watermark_a_table_and_arguments(
    host: Supervisor, kafka: EmbeddedKafka, topic: str, folder: Path
) -> None:
    """Rows of an hour; a row of two hours later closes the windows; the table gives each word its length. A row of the
    first hour is late then: the report says so."""
    pd.DataFrame({"word": [f"w{n}" for n in range(7)], "size": range(7)}).to_parquet(folder / "words-2024.parquet")
    produce(kafka.bootstrap, topic, numbers(0, 600), KEY_GROUPS)
    produce(kafka.bootstrap, topic, [{"n": 600, "word": "w0", "at": "2024-01-01T03:00:00Z"}], KEY_GROUPS)
    sql = """
        SELECT window.start AS start, size, count(*) AS rows FROM events JOIN words USING (word)
        WHERE n >= :least GROUP BY window(at, '30 minutes'), size
    """
    config = files_job(
        topic,
        folder,
        "windows",
        query={"sql": sql},
        args={"least": 60, "year": 2024},
        tables={"words": {"path": f"{folder}/words-${{year}}.parquet"}},
        source={"event_time_column": "at", "watermark_delay": "1 minute"},
        threads_per_task=2,
    )
    spec = task_spec("windows", config)
    checkpoint = started(host.start(spec))["checkpoint"]
    wait_until(lambda: (last_commit(checkpoint) or 0) >= 1, 60, "the windows to be written")
    progress = wait_until(lambda: watermarked(host, spec.task_id), 30, "the progress with its state")
    produce(kafka.bootstrap, topic, [{"n": 601, "word": "w0", "at": "2024-01-01T00:10:00Z"}], KEY_GROUPS)
    told = wait_until(lambda: host.progress[spec.task_id].input_problems, 30, "the late row to be told")
    assert told["late_rows"].startswith("1 late row was dropped in 5 minutes")
    host.stop(spec.task_id, finish_pending=True)
    expected = pd.DataFrame(numbers(60, 600))
    expected["start"] = pd.to_datetime(expected["at"]).dt.floor("30min")
    expected["size"] = expected["word"].str[1:].astype(int)
    got = {(row.start, row.size_): row.rows for row in renamed(read(folder, "windows"))}
    assert got == expected.groupby(["start", "size"]).size().to_dict()
    assert progress.watermark == "2024-01-01T02:59:00.000Z"
    assert progress.state_rows == 1
    conf = planned_batch(checkpoint, 0).metadata["conf"]
    assert conf["spark.sql.shuffle.partitions"] == "2"


def watermarked(host: Supervisor, task_id: str) -> Any:
    progress = host.progress.get(task_id)
    return progress if progress is not None and progress.state_rows == 1 else None


def renamed(frame: pd.DataFrame) -> Iterator[Any]:
    frame["start"] = pd.to_datetime(frame["start"], utc=True)
    return frame.rename(columns={"size": "size_"}).itertuples()


@pytest.mark.long
def test_rocksdb_keeps_state_behind_the_same_fence(
    host: Supervisor, kafka: EmbeddedKafka, topic: str, folder: Path
) -> None:
    produce(kafka.bootstrap, topic, numbers(0, 100), KEY_GROUPS)
    sql = "SELECT word, count(*) AS rows FROM events GROUP BY word"
    target = {"type": "kafka", "topic": make_topic(kafka.bootstrap, 1)}
    config = job_config(topic, KEY_GROUPS, target, query={"sql": sql}, output_mode="update", state_backend="rocksdb")
    spec = task_spec("rocks", config)
    started(host.start(spec))
    assert host.wait_for_records(spec.task_id, 100).state_rows == 7
    assert host.stop(spec.task_id, finish_pending=True).result["clean"]
    produce(kafka.bootstrap, topic, numbers(100, 200), KEY_GROUPS)
    started(host.start(spec, 2))
    assert host.wait_for_records(spec.task_id, 200).state_rows == 7
    host.stop(spec.task_id)


EVENT = with_imports(
    FileDescriptorProto(name="e.proto", message_type=[message("E", field(1, "n", "int64"), field(2, "word", "string"))])
)
FORMATS: dict[str, tuple[dict[str, Any], bytes]] = {
    "csv": ({"value_schema": "n BIGINT, word STRING"}, b"5,five"),
    "avro": ({"value_schema": avro_record(("n", "long"), ("word", "string"))}, b"\x0a\x08five"),
    "json": ({"value_schema": "n BIGINT, word STRING"}, b'{"n": 5, "word": "five"}'),
    "protobuf": ({"value_schema": text(EVENT), "protobuf": {"message": "E"}}, b"\x08\x05\x12\x04five"),
}


@pytest.mark.parametrize("name", ["csv", "avro", "json", pytest.param("protobuf", marks=pytest.mark.long)])
def test_formats_and_records_that_do_not_parse(
    host: Supervisor, kafka: EmbeddedKafka, topic: str, folder: Path, name: str
) -> None:
    """With `malformed: null` they are rows of nulls. The report counts them, and says so."""
    schema, value = FORMATS[name]
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    producer.produce(topic, value=value, partition=0)
    producer.produce(topic, value=b"\xff" if name in ("avro", "protobuf") else b"{broken", partition=1)
    producer.produce(topic, value=None, partition=2)
    assert producer.flush(30) == 0
    source = {"format": name, **schema, "malformed": "null"}
    spec = task_spec(name, files_job(topic, folder, name, source=source))
    started(host.start(spec))
    host.wait_for_records(spec.task_id, 3)
    progress = host.progress[spec.task_id]
    assert progress.malformed_records == 1
    (told,) = progress.input_problems.values()
    assert told == "inputs.events: 1 of 3 records (33.3 %) were malformed in 5 minutes; the query has them as nulls"
    host.stop(spec.task_id, finish_pending=True)
    rows = read(folder, name)
    assert len(rows) == 3
    good = rows.dropna(subset=["word"])
    assert list(zip(good["n"], good["word"], strict=True)) == [(5, "five")]


def test_raw_gives_the_columns_of_kafka(host: Supervisor, kafka: EmbeddedKafka, topic: str, folder: Path) -> None:
    produce(kafka.bootstrap, topic, numbers(0, 8), KEY_GROUPS)
    sql = "SELECT partition, offset, CAST(value AS STRING) AS text FROM events"
    config = files_job(topic, folder, "raw", query={"sql": sql}, source={"format": "raw", "value_schema": None})
    spec = task_spec("raw", config)
    started(host.start(spec))
    host.wait_for_records(spec.task_id, 8)
    host.stop(spec.task_id, finish_pending=True)
    rows = read(folder, "raw").sort_values(["partition", "offset"])
    assert [(r.partition, r.offset) for r in rows.itertuples()] == [(p, o) for p in range(4) for o in range(2)]
    assert json.loads(rows["text"].iloc[0])["n"] == 0


@pytest.fixture(scope="module")
def package(folder: Path) -> dict[str, str]:
    return packed_words(folder)


def test_a_python_query_runs_from_its_package_also_in_its_workers(
    host: Supervisor, kafka: EmbeddedKafka, topic: str, folder: Path, package: dict[str, str]
) -> None:
    """With wheels: `test_environments`."""
    produce(kafka.bootstrap, topic, numbers(0, 20), KEY_GROUPS)
    query = {"python": "words:loud"}
    spec = task_spec("loud", files_job(topic, folder, "loud", query=query, package=package, args={"limit": 10}))
    started(host.start(spec))
    host.wait_for_records(spec.task_id, 20)
    host.stop(spec.task_id, finish_pending=True)
    rows = read(folder, "loud").sort_values("n")
    assert list(rows["word"]) == [f"W{n % 7}" for n in range(10)]


@pytest.mark.parametrize(
    ("function", "words"),
    [
        ("words:broken", "KeyError: 'forgotten'"),
        ("words:number", "returned int"),
        ("words:nothing", "no attribute 'nothing'"),
        ("elsewhere:loud", "No module named 'elsewhere'"),
    ],
)
def test_a_python_query_that_cannot_run_says_why(
    host: Supervisor, topic: str, folder: Path, package: dict[str, str], function: str, words: str
) -> None:
    config = files_job(topic, folder, "python", query={"python": function}, package=package)
    reply = host.start(task_spec("python", config))
    assert (reply.ok, reply.error_kind) == (False, "broken_task")
    assert words in str(reply.error)
