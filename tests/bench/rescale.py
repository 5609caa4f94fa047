"""Rescaling with state: `python -m tests.bench.rescale [--keys 1000000] [--small 10000] [--cases sum-heap,...]`.

With `--concurrent 20` instead twenty small jobs at once, through the whole stack: `tests.bench.rescale_many`. With
`--busy` instead jobs beside processes that burn all cores, and without them: `tests.bench.rescale_busy`.

A job of `--keys` keys runs as 4 tasks on one host (`local[2]`), is redistributed to 8 and then to 3 (`--sizes`); rows
keep coming.
`copy_s`: the copy of the state while the tasks ran. With `--no-copy` all state moves after the stop.
`prepare_s`: what the new tasks need was made ahead while the old ones ran. With `--no-prepare` the starts do all of it.
`downtime_s`: from the command to stop the old tasks, which have ended the batch in hand before as in every rescale,
until each new task has committed its first batch, without the time in which the bench itself writes rows for that.
`cpu_s`: what the host's JVM used of the processor meanwhile.
`redistribute_s`: the host's part of it, from command to report. `rows_per_s`: rows of state moved and verified in that
time. `spark_own`: Spark's offline repartition inside one checkpoint (RocksDB, 1 -> 4 partitions), and beside it what
a redistribution takes for the same. Figures of the worst of the two changes.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import psutil
from confluent_kafka import Consumer, Producer, TopicPartition
from pyspark.sql import SparkSession

from penstock.config.keygroups import ranges
from penstock.config.model import JobConfig
from penstock.control import logs
from penstock.control.process import wait_until
from penstock.local.kafka import EmbeddedKafka
from penstock.spark.channel import Live, Prepare, Stop
from penstock.spark.checkpoint import last_commit, task_checkpoint
from penstock.spark.redistribute.positions import task_specs
from penstock.spark.settings import SparkSettings
from penstock.tasks.redistribution import CopyRequest, Layout, RedistributionReport, RedistributionRequest
from tests.bench.report import finish, say
from tests.bench.rescale_busy import busy
from tests.bench.rescale_many import concurrent
from tests.support.spark.hosts import COMPILED, Supervisor, make_topic, running_host, settings_for
from tests.support.spark.hosts import run_host_task as run
from tests.support.spark.session import local_session, unique
from tests.support.spark.spark_hash import key_group

KEY_GROUPS = 24
WAIT_S = 600.0
SIZES = (4, 8, 3)


class Case(NamedTuple):
    """A query over `events` (k, v, at), how it keeps its state, and the share of the keys that it gets."""

    query: str
    backend: str
    mode: str = "append"
    share: float = 1.0


SUM = "SELECT k, count(*) AS c, sum(v) AS s FROM events GROUP BY k"
WINDOW = "SELECT window.start AS w, k, count(*) AS c FROM events GROUP BY window(at, '1 day'), k"
DISTINCT = "SELECT DISTINCT k, v FROM events"
JOIN = "SELECT a.k, a.v, b.v AS w FROM events a JOIN events b ON a.k = b.k AND a.at = b.at AND a.v < b.v"
SPARK_OWN = "spark_own"
CASES = {
    "small": Case(SUM, "heap", "update"),
    "stateless": Case("SELECT k, v FROM events WHERE v < 0", "heap"),
    "sum-heap": Case(SUM, "heap", "update"),
    "sum-rocksdb": Case(SUM, "rocksdb", "update"),
    "window-heap": Case(WINDOW, "heap"),
    "distinct-rocksdb": Case(DISTINCT, "rocksdb", "update"),
    "join-rocksdb": Case(JOIN, "rocksdb", share=0.25),
}


def main() -> None:
    """Prints the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--small", type=int, default=10_000)
    parser.add_argument("--cases", default=",".join([*CASES, SPARK_OWN]))
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)), help="a longer list ends on a warm host")
    parser.add_argument("--concurrent", type=int, metavar="JOBS")
    parser.add_argument("--busy", action="store_true")
    parser.add_argument("--no-copy", action="store_true")
    parser.add_argument("--no-prepare", action="store_true")
    parser.add_argument("--heap-gib", type=int, default=3, help="of the host's JVM; 5,000,000 keys on heap want 8")
    arguments = parser.parse_args()
    if arguments.concurrent:
        finish(concurrent(arguments.concurrent))
        return
    logs.configure("bench", level="ERROR")
    if arguments.busy:
        finish(busy())
        return
    folder = Path(tempfile.mkdtemp(prefix="penstock-bench-"))
    figures: dict[str, Any] = {}
    try:
        with EmbeddedKafka(folder / "kafka") as kafka:
            ahead = {"copies": not arguments.no_copy, "prepares": not arguments.no_prepare}
            bench = Bench(_settings(folder, kafka.bootstrap, arguments.heap_gib), **ahead)
            cases, sizes = arguments.cases.split(","), [int(size) for size in arguments.sizes.split(",")]
            for name in [case for case in cases if case != SPARK_OWN]:
                keys = arguments.small if name in ("small", "stateless") else int(arguments.keys * CASES[name].share)
                with running_host(unique(name), bench.settings, folder) as host:
                    figures[name] = bench.measure(host, name, keys, sizes)
                say(f"{name}: {figures[name]}")
            if SPARK_OWN in cases:
                with running_host(unique("own"), bench.settings, folder) as host:
                    checkpoint, moved = bench.redistributed(host, arguments.keys)
                with local_session(folder / "session", COMPILED) as session:
                    figures[SPARK_OWN] = moved | {"spark_own_s": spark_own(session, checkpoint)}
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    finish(figures)


class Bench:
    """One broker; each case runs on a host with these settings."""

    def __init__(self, settings: SparkSettings, *, copies: bool = True, prepares: bool = True) -> None:
        self.settings = settings
        self._copies = copies
        self._prepares = prepares
        self._bootstrap = settings.kafka_bootstrap

    def measure(self, host: Supervisor, name: str, keys: int, sizes: Sequence[int] = SIZES) -> dict[str, float]:
        """The figures of one case: a job of `sizes[0]` tasks takes the other sizes in turn."""
        topic, job, case = self._filled_topic(keys), unique(name), CASES[name]
        before = self._layout(case, topic, 1, sizes[0])
        self._start(host, job, before, keys)
        changes = []
        for generation, tasks in enumerate(sizes[1:], 2):
            after = self._layout(case, topic, generation, tasks)
            changes.append(self._change(host, RedistributionRequest(job=job, source=before, target=after)))
            say(f"{name} to {tasks} tasks: down {changes[-1]['downtime_s']:.2f} s")
            before = after
        _stop(host, job, before)
        return {
            "rows": max(change["rows"] for change in changes),
            "keys": keys,
            "copy_s": max(change["copy_s"] for change in changes),
            "prepare_s": max(change["prepare_s"] for change in changes),
            "downtime_s": max(change["downtime_s"] for change in changes),
            "cpu_s": max(change["cpu_s"] for change in changes),
            "redistribute_s": max(change["redistribute_s"] for change in changes),
            "rows_per_s": min(change["rows_per_s"] for change in changes),
        }

    def redistributed(self, host: Supervisor, keys: int) -> tuple[str, dict[str, float]]:
        """The checkpoint of one task with the state of `keys` keys, and what redistributing it to 4 threads took."""
        topic, job, case = self._filled_topic(keys), unique("own"), CASES["sum-rocksdb"]
        source = self._layout(case, topic, 1, 1)
        target = self._layout(case, topic, 2, 1, threads=4)
        self._start(host, job, source, keys)
        _stop(host, job, source)
        report, seconds = _redistribute(host, RedistributionRequest(job=job, source=source, target=target))
        checkpoint = task_checkpoint(self.settings.checkpoint_root, job, 1, 0)
        return checkpoint, {"keys": keys, "rows": report.state_rows, "redistribute_s": seconds}

    def _filled_topic(self, keys: int) -> str:
        topic = make_topic(self._bootstrap, KEY_GROUPS)
        _fill(self._bootstrap, topic, keys)
        return topic

    def _layout(self, case: Case, topic: str, generation: int, tasks: int, threads: int = 1) -> Layout:
        config = JobConfig.model_validate(
            {
                "inputs": {
                    "events": {
                        "topic": topic,
                        "key_groups": KEY_GROUPS,
                        "value_schema": "k STRING, v BIGINT, at TIMESTAMP",
                        "key_function": "spark",
                        "key_columns": ["k"],
                        "event_time_column": "at",
                        "watermark_delay": "10 days",
                    }
                },
                "query": {"sql": case.query},
                "output": {"type": "kafka", "topic": f"{topic}-out"},
                "output_mode": case.mode,
                "state_backend": case.backend,
                "task_count": tasks,
                "threads_per_task": threads,
                "trigger_interval_seconds": 0,
            }
        )
        return Layout(generation=generation, config=config, ranges=ranges(KEY_GROUPS, tasks))

    def _records(self, topic: str) -> int:
        """The records of a topic, of which none is ever deleted."""
        consumer = Consumer({"bootstrap.servers": self._bootstrap, "group.id": "bench"})
        try:
            return sum(consumer.get_watermark_offsets(TopicPartition(topic, group))[1] for group in range(KEY_GROUPS))
        finally:
            consumer.close()

    def _start(self, host: Supervisor, job: str, layout: Layout, records: int) -> None:
        for spec in task_specs(job, layout):
            reply = host.start(spec)
            if not reply.ok:
                raise RuntimeError(reply.error)
        wait_until(lambda: _read(host, job) >= records, WAIT_S, "the tasks to read their input")

    def _change(self, host: Supervisor, request: RedistributionRequest) -> dict[str, float]:
        """A change of size while rows come: the new tasks have something to commit."""
        topic = request.source.config.inputs["events"].topic
        copied = _copy(host, request) if self._copies else 0.0
        prepared = _prepare(host, request) if self._prepares else 0.0
        _fill(self._bootstrap, topic, KEY_GROUPS * 20)
        wait_until(lambda: _read(host, request.job) >= self._records(topic), WAIT_S, "the tasks to read on")
        _quiesce(host, request)
        begun, cpu = time.perf_counter(), _cpu_seconds(host)
        _stop(host, request.job, request.source)
        stopped = time.perf_counter()
        _fill(self._bootstrap, topic, KEY_GROUPS * 20)
        filled = time.perf_counter()
        report, seconds = _redistribute(host, request)
        specs = task_specs(request.job, request.target)
        root = self.settings.checkpoint_root
        checkpoints = [task_checkpoint(root, request.job, request.target.generation, spec.index) for spec in specs]
        of_redistribution = {path: last_commit(path) or 0 for path in checkpoints}
        for answer in [host.send_start(spec) for spec in specs]:
            if not (reply := answer.result(WAIT_S)).ok:
                raise RuntimeError(reply.error)
        started = time.perf_counter()
        wait_until(
            lambda: all((last_commit(path) or 0) > done for path, done in of_redistribution.items()),
            WAIT_S,
            "commits",
            poll_s=0.02,
        )
        committed, cpu = time.perf_counter(), _cpu_seconds(host) - cpu
        downtime = committed - begun - (filled - stopped)
        parts = {
            "stop": stopped - begun,
            **report.seconds,
            "start": started - filled - seconds,
            "first batches": committed - started,
        }
        told = ", ".join(f"{name} {part:.2f}" for name, part in parts.items())
        changed = "all" if report.changed_rows is None else report.changed_rows
        say(
            f"{request.job} to {len(specs)}: downtime {downtime:.2f} s, {cpu:.2f} s of CPU ({told}), "
            f"{report.state_rows} rows, "
            f"{changed} of them after the stop; the copy took {copied:.2f} s, preparing {prepared:.2f} s"
        )
        return {
            "rows": report.state_rows,
            "copy_s": copied,
            "prepare_s": prepared,
            "downtime_s": downtime,
            "cpu_s": cpu,
            "redistribute_s": seconds,
            "rows_per_s": report.state_rows / seconds,
        }


def spark_own(session: SparkSession, checkpoint: str) -> float:
    """Seconds that Spark itself takes to repartition the state inside a checkpoint (RocksDB) to 4."""
    session.conf.set(
        "spark.sql.streaming.stateStore.providerClass",
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    )
    # Begins the coordinator that state stores report to: perhaps no query was started in this session.
    say(f"spark's own repartition, with {len(session.streams.active)} queries beside it")
    begun = time.perf_counter()
    session._streamingCheckpointManager.repartition(checkpoint, 4, True)  # type: ignore[attr-defined]
    return time.perf_counter() - begun


def _fill(bootstrap: str, topic: str, keys: int) -> None:
    """A row of each key, where Spark's hash puts it; all within a day."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20, "queue.buffering.max.messages": 2_000_000})
    for number in range(keys):
        key = f"key-{number}"
        record = f'{{"k":"{key}","v":{number},"at":"2026-01-01T{number % 24:02}:00:00Z"}}'
        producer.produce(topic, key=key, value=record, partition=key_group(key, KEY_GROUPS))
        if number % 10_000 == 0:
            producer.poll(0)
    if producer.flush(120):
        raise RuntimeError("kafka did not take the rows")


def _settings(folder: Path, bootstrap: str, heap_gib: int) -> SparkSettings:
    settings = settings_for(folder, bootstrap, heap_bytes=heap_gib * 2**30, progress_interval_seconds=0.5)
    return settings.model_copy(update={"spark_conf": {}})


def _read(host: Supervisor, job: str) -> int:
    tasks = [progress for task_id, progress in host.progress.items() if task_id.startswith(f"{job}/")]
    return sum(offset for task in tasks for offsets in task.offsets.values() for offset in offsets.values())


def _quiesce(host: Supervisor, request: RedistributionRequest) -> None:
    """The old tasks end the batch in hand and take no more rows."""
    for spec in task_specs(request.job, request.source):
        host.host.send(Live(id=0, spec=spec.model_copy(update={"quiescing": True}))).result(WAIT_S)
    indexes = range(len(request.source.ranges))
    wait_until(
        lambda: all(host.progress[f"{request.job}/{index}"].quiesced for index in indexes),
        WAIT_S,
        "the tasks to be quiet",
    )


def _stop(host: Supervisor, job: str, layout: Layout) -> None:
    stops = [host.host.send(Stop(id=0, task_id=f"{job}/{index}")) for index in range(len(layout.ranges))]
    for answer in stops:
        if not (reply := answer.result(WAIT_S)).ok:
            raise RuntimeError(reply.error)


def _cpu_seconds(host: Supervisor) -> float:
    """What the host's JVM has used of the processor since its start."""
    used = psutil.Process(host.host.ready.result(WAIT_S).jvm_pid).cpu_times()
    return float(used.user + used.system)


def _copy(host: Supervisor, request: RedistributionRequest) -> float:
    """Seconds that the copy of the state took, while the tasks ran."""
    begun = time.perf_counter()
    copy = CopyRequest(job=request.job, source=request.source, target=request.target)
    reply = host.host.send(run(copy)).result(WAIT_S)
    if not reply.ok:
        raise RuntimeError(reply.error)
    return time.perf_counter() - begun


def _prepare(host: Supervisor, request: RedistributionRequest) -> float:
    """Seconds until the host had prepared the new tasks, one after the other."""
    begun = time.perf_counter()
    for answer in [host.host.send(Prepare(id=0, spec=spec)) for spec in task_specs(request.job, request.target)]:
        if not (reply := answer.result(WAIT_S)).ok:
            raise RuntimeError(reply.error)
    return time.perf_counter() - begun


def _redistribute(host: Supervisor, request: RedistributionRequest) -> tuple[RedistributionReport, float]:
    begun = time.perf_counter()
    reply = host.host.send(run(request)).result(WAIT_S)
    if not reply.ok:
        raise RuntimeError(reply.error)
    return RedistributionReport.model_validate(reply.result), time.perf_counter() - begun


if __name__ == "__main__":
    main()
