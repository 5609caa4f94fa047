"""Hosts, specs and topics for the tests of `penstock.spark`."""

from __future__ import annotations

import json
import queue
import threading
import uuid
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd
import psutil
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from penstock.config.keygroups import ranges
from penstock.config.model import JobConfig
from penstock.control.clock import SystemClock
from penstock.control.errors import Unavailable
from penstock.control.process import wait_until
from penstock.local.jars import share_dir
from penstock.spark.access import with_access
from penstock.spark.channel import (
    Command,
    Event,
    Lease,
    Loads,
    Progress,
    Ready,
    Reply,
    RunHostTask,
    Start,
    Stop,
    TaskEnded,
)
from penstock.spark.files import local_path
from penstock.spark.host.client import HostProcess
from penstock.spark.host.exits import ExitReason
from penstock.spark.packages import pack
from penstock.spark.settings import SparkSettings
from penstock.spark.topics import described
from penstock.tasks.host_request import HostRequest
from penstock.tasks.host_task import HostTask
from penstock.tasks.spec import TaskSpec

READY_SECONDS = 150.0
REPLY_SECONDS = 90.0
END_SECONDS = 5.0
JAVA_OPTIONS = "spark.driver.extraJavaOptions"
QUICK_JVM = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseTransparentHugePages"
"""Without the second, better compiler the JVM would keep 48 MB for code, which the sessions of tests outgrow."""
INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
"""For a few rows, compiling a query costs more than it gains."""
_SLOW = """
def slow(session, inputs, args):
    return inputs["events"].selectExpr("n", "word", f"reflect('java.lang.Thread', 'sleep', {args['millis']}L) AS pause")
"""
COMPILED = {"spark.sql.codegen.wholeStage": "true", "spark.sql.codegen.factoryMode": "FALLBACK"}
"""As Spark does unless it is told otherwise."""


def run_host_task(request: HostRequest) -> RunHostTask:
    """The command to carry out a host task."""
    return RunHostTask(id=0, task=HostTask.model_validate({"leader_epoch": 1, "request": request}))


class AnsweringHost(HostProcess):
    """A host whose commands have futures: of the reply, or Unavailable when the host ends before. So has `ready`."""

    def __init__(self, name: str, settings: SparkSettings, log_path: Path, on_event: Any, on_end: Any) -> None:
        self.ready: Future[Ready] = Future()
        self._answers: dict[int, Future[Any]] = {-1: self.ready}
        self._lock = threading.Lock()
        self._listeners = on_event, on_end
        self._gone: Unavailable | None = None
        self._of_container = settings
        super().__init__(name, settings, log_path, on_event=self._heard, on_end=self._over)

    def send(self, command: Command) -> Future[Reply]:
        """Sends a command with an id of its own and what its job may use; a lease counts from now."""
        now = {"sent_at": SystemClock().monotonic()} if isinstance(command, Lease) else {}
        answer: Future[Reply] = Future()
        with self._lock:
            if self._gone is not None:
                answer.set_exception(self._gone)
                return answer
            number = len(self._answers)
            self._answers[number] = answer
        super().send(with_access(command.model_copy(update={"id": number, **now}), self._of_container))
        return answer

    def _heard(self, event: Event) -> None:
        match event:
            case Reply():
                self._answers[event.id].set_result(event)
            case Ready():
                self.ready.set_result(event)
        self._listeners[0](event)

    def _over(self, reason: ExitReason) -> None:
        with self._lock:
            self._gone = Unavailable(f"the host has ended: {reason.name.lower()}")
        for answer in self._answers.values():
            if not answer.done():
                answer.set_exception(self._gone)
        self._listeners[1](reason)


class Supervisor:
    """What a Task Manager is to a host: it keeps the newest progress and loads, and everything that ended."""

    def __init__(self, name: str, settings: SparkSettings, log_path: Path) -> None:
        self.ended: queue.SimpleQueue[TaskEnded] = queue.SimpleQueue()
        self.progress: dict[str, Any] = {}
        self.loads: dict[str, dict[str, float]] = {}
        self.exit: Future[ExitReason] = Future()
        self.log_path = log_path
        self.host = AnsweringHost(name, settings, log_path, self._take, self.exit.set_result)

    def _take(self, event: Event) -> None:
        match event:
            case TaskEnded():
                self.ended.put(event)
            case Progress():
                self.progress.update(event.tasks)
            case Loads():
                self.loads = event.tasks

    def start(self, spec: TaskSpec, epoch: int = 1, commit_number: int = 0) -> Reply:
        return self.send_start(spec, epoch, commit_number).result(REPLY_SECONDS)

    def stop(self, task_id: str, *, finish_pending: bool = False) -> Reply:
        return self.host.send(Stop(id=0, task_id=task_id, finish_pending=finish_pending)).result(REPLY_SECONDS)

    def next_ended(self) -> TaskEnded:
        return self.ended.get(timeout=REPLY_SECONDS)

    def send_start(self, spec: TaskSpec, epoch: int = 1, commit_number: int = 0) -> Future[Reply]:
        return self.host.send(Start(id=0, spec=spec, epoch=epoch, commit_number=commit_number))

    def wait_for_records(self, task_id: str, records: int, timeout_s: float = 90.0) -> Any:
        """The task's progress once it has read up to `records` records (the sum of its offsets)."""
        return wait_until(lambda: self._has_read(task_id, records), timeout_s, f"{task_id} to read {records} records")

    def _has_read(self, task_id: str, records: int) -> Any:
        progress = self.progress.get(task_id)
        if progress is None:
            return None
        read = sum(offset for partitions in progress.offsets.values() for offset in partitions.values())
        return progress if read >= records else None


@contextmanager
def running_host(name: str, settings: SparkSettings, folder: Path) -> Iterator[Supervisor]:
    """A host that is ready, and killed at the end."""
    supervisor = Supervisor(name, settings, folder / f"{name}.log")
    try:
        supervisor.host.ready.result(READY_SECONDS)
        yield supervisor
    finally:
        supervisor.host.kill()


def jvm_pid(supervisor: Supervisor) -> int:
    """The process id of the host's JVM."""
    return supervisor.host.ready.result(READY_SECONDS).jvm_pid


def wait_gone(pid: int, timeout_s: float = END_SECONDS) -> None:
    """Until there is no such process, or only a zombie."""
    wait_until(lambda: not runs(pid), timeout_s, f"process {pid} to end")


def runs(pid: int) -> bool:
    """Whether a process exists and is no zombie."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def quick_start(spark_conf: Mapping[str, str] | None = None) -> dict[str, str]:
    """Spark settings of a JVM that lives for seconds, and so is not worth much compilation."""
    conf = spark_conf or {}
    return {**INTERPRETED, **conf, JAVA_OPTIONS: f"{QUICK_JVM} {conf.get(JAVA_OPTIONS, '')}".strip()}


def settings_for(folder: Path, bootstrap: str, **more: Any) -> SparkSettings:
    """Settings of a small host, soon up, whose checkpoints are below `folder`."""
    return SparkSettings(
        checkpoint_root=str(folder / "checkpoints"),
        kafka_bootstrap=bootstrap,
        jars=share_dir() / "jars",
        packages_root=folder / "packages",
        path_roots=more.pop("path_roots", ("/",)),
        spark_local_dir=folder / "spark",
        spark_master=more.pop("spark_master", "local[2]"),
        heap_bytes=more.pop("heap_bytes", 600 * 2**20),
        progress_interval_seconds=more.pop("progress_interval_seconds", 0.2),
        spark_conf=quick_start(more.pop("spark_conf", None)),
        **more,
    )


def make_topic(bootstrap: str, partitions: int) -> str:
    """A topic of its own; returns its name."""
    topic = f"test-{uuid.uuid4().hex[:12]}"
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(30)
    # The controller knows it now; the broker that clients ask hears of it a moment later.
    wait_until(lambda: not described(bootstrap, [topic])[topic].is_missing, 10, f"the broker to know {topic}")
    return topic


def produce(bootstrap: str, topic: str, rows: Iterable[dict[str, Any]], partitions: int) -> int:
    """Writes JSON rows, each to the partition `n mod partitions` of its column `n`; returns how many."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5})
    count = 0
    for row in rows:
        producer.produce(topic, value=json.dumps(row), partition=row["n"] % partitions)
        count += 1
    assert producer.flush(30) == 0
    return count


def consume(bootstrap: str, topic: str, count: int) -> list[dict[str, Any]]:
    """The first `count` records of a topic, as JSON, transactions as committed."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": uuid.uuid4().hex, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    try:
        records = consumer.consume(count, timeout=60)
    finally:
        consumer.close()
    assert all(record.error() is None for record in records)
    return [json.loads(record.value()) for record in records]


def job_config(topic: str, key_groups: int, output: dict[str, Any], **more: Any) -> JobConfig:
    """A job over one JSON input `events` (n BIGINT, word STRING) whose query is `SELECT * FROM events` by default."""
    source = {
        "topic": topic,
        "key_groups": key_groups,
        "value_schema": "n BIGINT, word STRING, at TIMESTAMP",
        **more.pop("source", {}),
    }
    fields: dict[str, Any] = {
        "inputs": {"events": source},
        "query": {"sql": "SELECT n, word FROM events"},
        "output": output,
        "trigger_interval_seconds": 0.2,
        **more,
    }
    return JobConfig.model_validate(fields)


def slow_query(folder: Path, millis: int) -> dict[str, Any]:
    """The fields of a job over `events` that takes so long for each row. SQL of a job may not call Java; Python may."""
    source = folder / f"slow-{uuid.uuid4().hex[:6]}"
    source.mkdir()
    (source / "slow.py").write_text(_SLOW)
    pack(source, "slow", "1", folder / "packages")
    return {"query": {"python": "slow:slow"}, "package": {"name": "slow", "version": "1"}, "args": {"millis": millis}}


def task_spec(job: str, config: JobConfig, index: int = 0, generation: int = 1, revision: int = 1) -> TaskSpec:
    """The spec of one task of the job."""
    key_groups = next(iter(config.inputs.values())).key_groups
    return TaskSpec(
        job=job,
        index=index,
        revision=revision,
        generation=generation,
        restarts=0,
        key_groups=ranges(key_groups, config.task_count)[index],
        config=config,
    )


def rows_of_files(folder: Path) -> pd.DataFrame:
    """The rows of a files sink, by the files that its log names: others are of batches that did not commit."""
    entries = [json.loads(line) for path in _sink_log(folder) for line in path.read_text().splitlines()[1:]]
    return pd.concat([pd.read_parquet(local_path(entry["path"])) for entry in entries if entry["size"]])


def _sink_log(folder: Path) -> list[Path]:
    """A file a batch, but every tenth batch has `<batch>.compact`, which also holds what all before it say."""
    log = {path: int(path.stem) for path in (folder / "_spark_metadata").iterdir() if path.stem.isdigit()}
    first = max((batch for path, batch in log.items() if path.suffix == ".compact"), default=0)
    return [path for path, batch in log.items() if batch >= first]
