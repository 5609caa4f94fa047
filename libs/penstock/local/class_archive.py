"""The class archive: the classes of a Spark host, loaded and verified once. The JVM of each later host maps the file.

`python -m penstock.local.class_archive` brings `<share>/jars/archive/host.jsa` up to date; a second run finds its stamp
and does nothing. A host is started and runs usual tasks. Then its JVM writes the classes that it has loaded into the
file (class data sharing, JDK 17's dynamic archive). A host also starts without the archive, only slower.

A JVM uses the archive only if its class path begins with the same jars, unchanged (path, size, time), and says so in
its log otherwise; so the archive can be missing or stale, but not wrong.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TypeVar

from confluent_kafka import Producer

from penstock.config.keygroups import KeyGroupRange
from penstock.config.model import JobConfig
from penstock.control import logs
from penstock.control.errors import PenstockError, TerminalError
from penstock.control.process import wait_until
from penstock.local.jars import java_home, pyspark_home, share_dir, spark_jars
from penstock.local.kafka import EmbeddedKafka
from penstock.local.progress import Step
from penstock.local.topics import create_topics
from penstock.spark.channel import Event, Ready, Reply, Start
from penstock.spark.checkpoint import last_commit
from penstock.spark.host.client import HostProcess
from penstock.spark.host.exits import ExitReason
from penstock.spark.settings import SparkSettings, class_archive
from penstock.tasks.spec import TaskSpec

_SOURCE, _SINK = "events", "results"
_ROWS = 20
_TIMEOUT_SECONDS = 180.0
_ABOUT_SECONDS = 60
_COPY = "SELECT n, upper(word) AS word FROM events WHERE n IS NOT NULL"
_COUNT = "SELECT window.start AS start, word, count(*) AS rows FROM events GROUP BY window(at, '1 minute'), word"

log = logs.logger(__name__)
Events = SimpleQueue[Event | ExitReason]
E = TypeVar("E")


def build_class_archive() -> bool:
    """Make the archive unless the stamp fits the jars and the JDK; True when something was done.

    Raises `TerminalError` when the jars are missing or the JVM does not write the archive, and the
    errors of a host that does not start.
    """
    jars = share_dir() / "jars"
    archive = class_archive(jars)
    stamp, wanted = archive.with_suffix(".stamp"), _inputs()
    if archive.exists() and stamp.exists() and stamp.read_text() == wanted:
        return False
    archive.parent.mkdir(parents=True, exist_ok=True)
    fresh = archive.with_suffix(".new")
    # A JVM that uses an archive cannot write one. Those that run on the stale one keep it until they end.
    for stale in (archive, fresh):
        stale.unlink(missing_ok=True)
    with (
        Step("recording the class archive, for a quick start of Spark hosts", about_seconds=_ABOUT_SECONDS) as step,
        tempfile.TemporaryDirectory(prefix="penstock-archive-", ignore_cleanup_errors=True) as folder,
    ):
        _train(Path(folder), jars, fresh, step)
    fresh.replace(archive)
    stamp.write_text(wanted)
    return True


def _inputs() -> str:
    """What the JVM compares (jars, JDK), and this file, which decides the classes."""
    jars = [*spark_jars(), *sorted((pyspark_home() / "jars").glob("*.jar"))]
    files = [(path, path.stat()) for path in [*jars, java_home() / "release", Path(__file__)]]
    return "".join(f"{path} {stat.st_size} {stat.st_mtime_ns}\n" for path, stat in files)


def _train(folder: Path, jars: Path, archive: Path, step: Step) -> None:
    """Let a host run the usual tasks, and its JVM write `archive`. Then the host is not needed: it is killed."""
    step.now("starting Kafka")
    with EmbeddedKafka(folder / "kafka") as kafka:
        create_topics(kafka.bootstrap, {_SOURCE: 1, _SINK: 1})
        _produce(kafka.bootstrap)
        step.now("starting a Spark host")
        settings = _settings(folder, jars, kafka.bootstrap)
        events: Events = SimpleQueue()
        host = HostProcess("archive", settings, folder / "host.log", on_event=events.put, on_end=events.put)
        try:
            ready = _next(events, Ready)
            specs = list(_tasks(folder))
            for number, spec in enumerate(specs, 1):
                step.now(f"running task {number}/{len(specs)}")
                _run(host, events, spec)
            step.now("writing the archive")
            _dump(ready.jvm_pid, archive)
        finally:
            host.kill()


def _settings(folder: Path, jars: Path, bootstrap: str) -> SparkSettings:
    return SparkSettings(
        checkpoint_root=str(folder / "checkpoints"),
        kafka_bootstrap=bootstrap,
        packages_root=folder / "packages",
        jars=jars,
        spark_local_dir=folder / "spark",
        spark_master="local[2]",
        spark_driver_host="127.0.0.1",
        spark_conf={"spark.driver.extraJavaOptions": "-Xshare:auto -XX:+RecordDynamicDumpInfo"},
    )


def _produce(bootstrap: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for n in range(_ROWS):
        producer.produce(_SOURCE, value=json.dumps({"n": n, "word": f"w{n % 3}", "at": f"2024-01-01T00:{n:02}:00Z"}))
    if producer.flush(_TIMEOUT_SECONDS):
        raise TerminalError("the embedded kafka takes no records")


def _tasks(folder: Path) -> Iterator[TaskSpec]:
    """A task for each kind of sink and of state that a host of any size is likely to run."""
    yield _task("files", _COPY, {"type": "files", "path": str(folder / "files")})
    yield _task("delta", _COPY, {"type": "delta", "path": str(folder / "delta")})
    yield _task("kafka", _COUNT, {"type": "kafka", "topic": _SINK}, output_mode="update")


def _task(job: str, sql: str, output: dict[str, str], **more: str) -> TaskSpec:
    source = {
        "topic": _SOURCE,
        "key_groups": 1,
        "value_schema": "n BIGINT, word STRING, at TIMESTAMP",
        "event_time_column": "at",
        "watermark_delay": "1 minute",
    }
    fields = {"inputs": {"events": source}, "query": {"sql": sql}, "output": output, **more}
    config = JobConfig.model_validate({**fields, "trigger_interval_seconds": 0.2})
    groups = KeyGroupRange(0, 1)
    return TaskSpec(job=job, index=0, revision=1, generation=1, restarts=0, key_groups=groups, config=config)


def _next(events: Events, kind: type[E]) -> E:
    """The next event of a kind. Raises TerminalError when the host ends before, Empty after the timeout."""
    while not isinstance(event := events.get(timeout=_TIMEOUT_SECONDS), kind):
        if isinstance(event, ExitReason):
            raise TerminalError(f"the host for the class archive has ended: {event.name.lower()}")
    return event


def _run(host: HostProcess, events: Events, spec: TaskSpec) -> None:
    """Start a task and await its first batch."""
    host.send(Start(id=0, spec=spec, epoch=1))
    reply = _next(events, Reply)
    if not reply.ok:
        raise TerminalError(f"the host for the class archive cannot run {spec.task_id}: {reply.error}")
    checkpoint = str(reply.result["checkpoint"])
    wait_until(lambda: last_commit(checkpoint) is not None, _TIMEOUT_SECONDS, f"the first batch of {spec.task_id}")


def _dump(jvm_pid: int, archive: Path) -> None:
    command = [str(java_home() / "bin" / "jcmd"), str(jvm_pid), "VM.cds", "dynamic_dump", str(archive)]
    result = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if result.returncode != 0 or not archive.exists():
        raise TerminalError(f"the JVM wrote no class archive:\n{(result.stdout + result.stderr)[-2000:]}")


def main() -> None:
    """Bring the archive up to date. A failure is only a warning, since hosts start without the archive, only slower."""
    logs.configure("setup", level="WARNING")  # the log of a host that is killed on purpose reads like a failure
    try:
        build_class_archive()
    except (PenstockError, TimeoutError, Empty, OSError) as error:
        log.warning("no class archive: hosts will start slower", error=str(error))


if __name__ == "__main__":
    main()
