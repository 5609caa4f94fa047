"""The class archives: the classes of a Spark host, and of Kafka, loaded and verified once. Later JVMs map the files.

`python -m penstock.local.class_archive` brings `<share>/jars/archive/*.jsa` up to date; a second run finds its stamp
and does nothing. A host is started and runs usual tasks on a broker. As they end, their JVMs write the classes that
they have loaded into the files (class data sharing, JDK 17's dynamic archive). At its end a JVM also links what is not
linked yet: the archive asked for by `jcmd` lacks these classes, a quarter of all. Hosts and brokers also start without
an archive, only slower.

A JVM uses the archive only if its class path begins with the same jars, unchanged (path, size, time), and says so in
its log otherwise; so the archive can be missing or stale, but not wrong.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TypeVar

from penstock.config.keygroups import KeyGroupRange
from penstock.config.model import JobConfig
from penstock.control import logs
from penstock.control.errors import PenstockError, TerminalError
from penstock.control.process import wait_until
from penstock.local.jars import java_home, kafka_classpath, pyspark_home, share_dir, spark_jars
from penstock.local.kafka import EmbeddedKafka, kafka_archive
from penstock.local.progress import Step
from penstock.local.topics import create_topics
from penstock.spark.channel import Event, Ready, Reply, Start
from penstock.spark.checkpoint import last_commit
from penstock.spark.delivery import CheckedProducer
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
    """Make the archives unless the stamp fits the jars and the JDK; True when something was done.

    A second process that wants the same waits for the first and finds them made. Raises `TerminalError` when the jars
    are missing or a JVM does not write its archive, and the errors of a host that does not start.
    """
    jars = share_dir() / "jars"
    host, kafka = class_archive(jars), kafka_archive()
    host.parent.mkdir(parents=True, exist_ok=True)
    with _one_at_a_time(host.parent):
        stamp, wanted = host.with_suffix(".stamp"), _inputs()
        if host.exists() and kafka.exists() and stamp.exists() and stamp.read_text() == wanted:
            return False
        _build(jars, (host, kafka))
        stamp.write_text(wanted)
        return True


@contextmanager
def _one_at_a_time(folder: Path) -> Iterator[None]:
    """Waits for another process that builds: its JVMs would use what this one has made, and write nothing."""
    with (folder / ".lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _build(jars: Path, archives: tuple[Path, Path]) -> None:
    """Each archive gets its name in one step, once it is whole. What a killed process left harms no other."""
    # A JVM that uses an archive cannot write one. Those that run on the stale one keep it until they end.
    for archive in archives:
        archive.unlink(missing_ok=True)
    with (
        Step("recording the class archive, for a quick start of Spark hosts", about_seconds=_ABOUT_SECONDS) as step,
        tempfile.TemporaryDirectory(prefix="penstock-archive-", ignore_cleanup_errors=True) as folder,
        tempfile.TemporaryDirectory(prefix=".new-", dir=archives[0].parent) as fresh,
    ):
        _train(Path(folder), jars, Path(fresh), step)
        for archive in archives:
            written = Path(fresh) / archive.name
            if not is_whole(written):
                raise TerminalError(f"the JVM wrote no {archive.name}, or was killed before its end")
            written.replace(archive)


def is_whole(archive: Path) -> bool:
    """Whether a JVM wrote the file to its end: it writes the header last, over a gap of zeros."""
    if not archive.exists():
        return False
    with archive.open("rb") as file:
        return any(file.read(4))


def _inputs() -> str:
    """What the JVM compares (jars, JDK), and this file, which decides the classes."""
    jars = [*spark_jars(), *sorted((pyspark_home() / "jars").glob("*.jar")), *map(Path, kafka_classpath().split(":"))]
    files = [(path, path.stat()) for path in [*jars, java_home() / "release", Path(__file__)]]
    return "".join(f"{path} {stat.st_size} {stat.st_mtime_ns}\n" for path, stat in files)


def _train(folder: Path, jars: Path, fresh: Path, step: Step) -> None:
    """Let a host run the usual tasks on a broker. Both JVMs write their archives into `fresh` as they end."""
    step.now("starting Kafka")
    with EmbeddedKafka(folder / "kafka", jvm_options=[_written_at_end(fresh, kafka_archive())]) as kafka:
        create_topics(kafka.bootstrap, {_SOURCE: 1, _SINK: 1})
        _produce(kafka.bootstrap)
        step.now("starting a Spark host")
        settings = _settings(folder, jars, kafka.bootstrap, _written_at_end(fresh, class_archive(jars)))
        events: Events = SimpleQueue()
        host = HostProcess("archive", settings, folder / "host.log", on_event=events.put, on_end=events.put)
        try:
            ready = _next(events, Ready)
            step.now("running tasks")
            _run(host, events, list(_tasks(folder)))
            step.now("writing the archives")
            os.kill(ready.jvm_pid, signal.SIGTERM)
            while not isinstance(events.get(timeout=_TIMEOUT_SECONDS), ExitReason):
                pass
        finally:
            host.kill()


def _written_at_end(fresh: Path, archive: Path) -> str:
    return f"-XX:ArchiveClassesAtExit={fresh / archive.name}"


def _settings(folder: Path, jars: Path, bootstrap: str, recording: str) -> SparkSettings:
    return SparkSettings(
        checkpoint_root=str(folder / "checkpoints"),
        kafka_bootstrap=bootstrap,
        packages_root=folder / "packages",
        path_roots=(str(folder),),
        jars=jars,
        spark_local_dir=folder / "spark",
        spark_master="local[2]",
        spark_driver_host="127.0.0.1",
        # A JVM that lives for seconds is not worth the second, better compilation.
        spark_conf={"spark.driver.extraJavaOptions": f"-XX:TieredStopAtLevel=1 {recording}"},
    )


def _produce(bootstrap: str) -> None:
    producer = CheckedProducer({"bootstrap.servers": bootstrap}, _TIMEOUT_SECONDS)
    for n in range(_ROWS):
        producer.send(_SOURCE, json.dumps({"n": n, "word": f"w{n % 3}", "at": f"2024-01-01T00:{n:02}:00Z"}))
    producer.require_taken("the embedded kafka")


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


def _run(host: HostProcess, events: Events, specs: list[TaskSpec]) -> None:
    """Start the tasks together and await the first batch of each."""
    for number, spec in enumerate(specs):
        host.send(Start(id=number, spec=spec, epoch=1))
    for _ in specs:
        reply = _next(events, Reply)
        if not reply.ok:
            raise TerminalError(f"the host for the class archive cannot run a task: {reply.error}")
        _await_first_batch(str(reply.result["checkpoint"]))


def _await_first_batch(checkpoint: str) -> None:
    wait_until(lambda: last_commit(checkpoint) is not None, _TIMEOUT_SECONDS, f"the first batch of {checkpoint}")


def main() -> None:
    """Bring the archive up to date. A failure is only a warning, since hosts start without the archive, only slower."""
    logs.configure("setup", level="WARNING")  # the log of a host that is killed on purpose reads like a failure
    try:
        build_class_archive()
    except (PenstockError, TimeoutError, Empty, OSError) as error:
        log.warning("no class archive: hosts will start slower", error=str(error))


if __name__ == "__main__":
    main()
