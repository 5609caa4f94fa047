"""Tasks whose batches or starts take long, on one host: it ends those that do not stop, and the others go on."""

from __future__ import annotations

import os
import signal
from concurrent.futures import Future
from pathlib import Path
from time import monotonic
from typing import Any

import psycopg
import pytest

from penstock.control.process import wait_until
from penstock.local.kafka import EmbeddedKafka
from penstock.spark.channel import GiveUp, Lease, Live, Prepare, Reply, Stop
from penstock.spark.checkpoint import last_commit, last_offset
from penstock.spark.host.exits import ExitReason
from penstock.spark.packages import pack
from penstock.tasks.spec import TaskSpec
from tests.support.spark.hosts import (
    END_SECONDS,
    REPLY_SECONDS,
    Supervisor,
    job_config,
    jvm_pid,
    make_topic,
    produce,
    runs,
    task_spec,
    wait_gone,
)

PACKAGE = '''
import os
import time
from pathlib import Path
from pyspark.sql import functions as F
from pyspark.sql.types import StringType

def endless(session, inputs, args):
    """Its Python worker writes its process id, and never returns."""
    def sleep(word):
        with open(args["mark"] + ".new", "w") as mark:
            mark.write(str(os.getpid()))
        os.rename(args["mark"] + ".new", args["mark"])
        time.sleep(600)
    return inputs["events"].select("n", F.udf(sleep, StringType())("word").alias("word"))

def slow_rows(session, inputs, args):
    """Each row takes a tenth of a second."""
    def sleep(word):
        time.sleep(0.1)
        return word
    return inputs["events"].select("n", F.udf(sleep, StringType())("word").alias("word"))

def slow_start(session, inputs, args):
    """Its start runs a Spark job of ten minutes."""
    open(args["mark"], "w").close()
    session.range(1).selectExpr("reflect('java.lang.Thread', 'sleep', 600000L)").collect()
    return inputs["events"]

def rows(session, inputs, args):
    return inputs["events"].select("n", "word")

def loops(frame, batch_id, args):
    """Python that goes on after every error but that of a stop."""
    while True:
        try:
            Path(args["mark"]).touch()
            time.sleep(0.1)
        except Exception:
            pass

def awaits_jobs(frame, batch_id, args):
    """Waits in Spark's JVM for a job of ten minutes; after every error but that of a stop it begins anew."""
    while True:
        try:
            Path(args["mark"]).touch()
            frame.selectExpr("reflect('java.lang.Thread', 'sleep', 600000L)").collect()
        except Exception:
            pass
'''
LONGEST_STOP_SECONDS = 20.0
"""Well below the time after which a Task Manager gives the host up (30 s)."""
WAITERS = "SELECT count(*) FROM pg_locks WHERE NOT granted"


class Slow:
    """A host, a package of slow queries, and a database."""

    def __init__(self, host: Supervisor, folder: Path, bootstrap: str, database: str) -> None:
        self.host = host
        self.folder = folder
        self.bootstrap = bootstrap
        self.database = database
        source = folder / "endings"
        source.mkdir()
        (source / "endings.py").write_text(PACKAGE)
        _, digest = pack(source, "endings", "1.0", folder / "packages")
        self.package = {"name": "endings", "version": "1.0", "digest": digest}

    def topic(self, rows: int) -> str:
        topic = make_topic(self.bootstrap, 1)
        self.produce(topic, rows)
        return topic

    def produce(self, topic: str, rows: int) -> None:
        produce(self.bootstrap, topic, ({"n": n, "word": "w", "at": "2024-01-01T00:00:00Z"} for n in range(rows)), 1)

    def spec(self, job: str, topic: str, **more: Any) -> TaskSpec:
        """A task that runs a function of the package, or else plain SQL."""
        if "function" in more:
            args = {"mark": str(self.mark(job))}
            more |= {"query": {"python": f"endings:{more.pop('function')}"}, "args": args, "package": self.package}
        output = more.pop("output", {"type": "files", "path": str(self.folder / "out" / job)})
        return task_spec(job, job_config(topic, 1, output, **more))

    def mark(self, job: str) -> Path:
        """A file that the slow function of a job makes when it begins."""
        return self.folder / f"{job}.mark"

    def backlogs(self, *jobs: str) -> list[int | None]:
        """Of tasks in a batch that lasts."""
        told = [self.host.progress.get(f"{job}/0") for job in jobs]
        return [each.backlog_records if each and each.oldest_unread_seconds else None for each in told]

    def has_finished_a_batch(self, job: str) -> bool:
        told = self.host.progress.get(f"{job}/0")
        return told is not None and told.batch_id is not None

    def reports_quiet(self, task_id: str, times: int) -> bool:
        """Whether the task is quiet, once it has said so, in so many reports one after the other. It is triggered about
        as often as its host reports."""
        self.next_report(task_id)
        wait_until(lambda: self.host.progress[task_id].quiesced, 30, "the task to be quiet")
        return all(self.next_report(task_id).quiesced for _ in range(times))

    def next_report(self, task_id: str) -> Any:
        """The task's progress in a report that comes from now on."""
        self.host.progress.clear()
        return wait_until(lambda: self.host.progress.get(task_id), 30, f"a report of {task_id}")

    def live(self, spec: TaskSpec) -> None:
        assert self.host.host.send(Live(id=0, spec=spec)).result(REPLY_SECONDS).ok

    def prepare(self, spec: TaskSpec) -> Future[Reply]:
        return self.host.host.send(Prepare(id=0, spec=spec))

    def seconds_to_stop(self, *jobs: str) -> float:
        begun = monotonic()
        for reply in [self.host.host.send(Stop(id=0, task_id=f"{job}/0")) for job in jobs]:
            assert reply.result(REPLY_SECONDS).ok
        return monotonic() - begun


@pytest.fixture(scope="module")
def slow(shared_host: Supervisor, kafka: EmbeddedKafka, shared_folder: Path, shared_database: str) -> Slow:
    return Slow(shared_host, shared_folder, kafka.bootstrap, shared_database)


def test_tasks_that_do_not_stop_are_ended_and_the_others_go_on(slow: Slow) -> None:
    """
    1. A Python worker never returns, a sink waits for a lock in Postgres, and two starts fill the host's threads.
    2. What the two long batches read, one of them the first of its task, is not done yet.
    3. All are told to stop, and have stopped in time; the Python worker is gone. Another task reads on.
    """
    quiet, waiting = slow.topic(3), slow.topic(0)
    assert slow.host.start(slow.spec("quiet", quiet)).ok
    assert slow.host.start(slow.spec("waits", waiting, output={"type": "postgres", "table": "late"})).ok
    wait_until(lambda: slow.has_finished_a_batch("waits"), 60, "the first batch, which has no rows")
    assert slow.host.start(slow.spec("endless", slow.topic(1), function="endless")).ok
    with psycopg.connect(slow.database) as lock, psycopg.connect(slow.database, autocommit=True) as look:
        lock.execute("LOCK TABLE late")
        slow.produce(waiting, 1)
        starts = [slow.host.send_start(slow.spec(job, quiet, function="slow_start")) for job in ("first", "second")]
        wait_until(lambda: all(slow.mark(job).exists() for job in ("endless", "first", "second")), 60, "them to begin")
        wait_until(lambda: look.execute(WAITERS).fetchone() == (1,), 60, "the sink to wait")
        wait_until(lambda: slow.backlogs("endless", "waits") == [1, 1], 60, "the rows of their batches to be a backlog")
        worker = int(slow.mark("endless").read_text())
        assert runs(worker)
        assert slow.seconds_to_stop("endless", "waits", "first", "second") < LONGEST_STOP_SECONDS
        wait_gone(worker)
    assert not any(start.result(REPLY_SECONDS).ok for start in starts)
    slow.produce(quiet, 3)
    slow.host.wait_for_records("quiet/0", 6)
    assert slow.seconds_to_stop("quiet") < LONGEST_STOP_SECONDS


@pytest.mark.long
def test_a_prepare_that_hangs_holds_up_no_other(slow: Slow) -> None:
    """1. The code of a job does not return. 2. Another job is prepared, and starts with that. 3. The first is given up:
    that is answered, and what it waited for ends, so that a task of the job is prepared again."""
    topic = slow.topic(1)
    hanging = slow.prepare(slow.spec("asleep", topic, function="slow_start"))
    wait_until(slow.mark("asleep").exists, 60, "its code to run")
    awake = slow.spec("awake", topic)
    assert slow.prepare(awake).result(REPLY_SECONDS).result == {"prepared": True}
    assert slow.host.start(awake).ok
    (told,) = [
        line for line in slow.host.log_path.read_text().splitlines() if "task started" in line and "awake" in line
    ]
    assert "prepared=True" in told
    assert not hanging.done()
    assert slow.host.host.send(GiveUp(id=0, task_id="asleep/0", generation=1)).result(REPLY_SECONDS).ok
    assert hanging.result(REPLY_SECONDS).result == {"prepared": False}
    again = slow.spec("asleep", topic)
    # It is answered before its thread has left what it interrupted, and one task is not prepared twice at once.
    wait_until(lambda: slow.prepare(again).result(REPLY_SECONDS).result == {"prepared": True}, 60, "it to be prepared")
    slow.seconds_to_stop("awake")


@pytest.mark.long
@pytest.mark.parametrize("function", ["loops", "awaits_jobs"])
def test_a_function_of_an_output_that_does_not_return_is_ended_and_another_task_goes_on(
    slow: Slow, function: str
) -> None:
    """1. A function gets a batch, and goes on after every error: one only in Python, one in Spark jobs. 2. Its task is
    told to stop and has stopped in time: an exception is raised in the one; the jobs of the other are cancelled first.
    3. Its batch is not committed. Another task of the host reads on, and is not started again."""
    job, topic = function.replace("_", "-"), slow.topic(3)
    assert slow.host.start(slow.spec(f"beside-{job}", topic)).ok
    output = {"type": "foreach_batch", "python": f"endings:{function}"}
    spec = slow.spec(job, topic, function="rows", output=output)
    checkpoint = slow.host.start(spec).result["checkpoint"]
    wait_until(slow.mark(job).exists, 60, "the function to begin")
    slow.host.wait_for_records(f"beside-{job}/0", 3)
    assert slow.seconds_to_stop(job) < LONGEST_STOP_SECONDS
    assert (last_offset(checkpoint), last_commit(checkpoint)) == (0, None)
    slow.produce(topic, 3)
    slow.host.wait_for_records(f"beside-{job}/0", 6)
    assert slow.seconds_to_stop(f"beside-{job}") < LONGEST_STOP_SECONDS
    assert slow.host.ended.empty()


@pytest.mark.long
def test_no_batch_of_a_catch_up_is_long_not_even_the_first(slow: Slow) -> None:
    """150 rows of a tenth of a second in batches of three seconds: fewer than the ten that a checkpoint keeps."""
    spec = slow.spec("catch-up", slow.topic(150), function="slow_rows", max_batch_seconds=3.0)
    checkpoint = Path(slow.host.start(spec).result["checkpoint"])
    slow.host.wait_for_records(spec.task_id, 150)
    assert slow.host.stop(spec.task_id, finish_pending=True).ok
    took = {path.name: batch_seconds(path) for path in checkpoint.glob("commits/[0-9]*")}
    assert "0" in took
    assert max(took.values()) <= 9.0, took


def batch_seconds(commit: Path) -> float:
    return commit.stat().st_mtime - (commit.parent.parent / "offsets" / commit.name).stat().st_mtime


def test_a_quiescing_task_finishes_its_batch_and_takes_no_more_rows_until_it_is_released(slow: Slow) -> None:
    """1. A task reads. 2. It is to take no more rows: rows that come wait. It says that it is quiet, and runs on.
    3. Released, it reads on. 4. Rows come while it is stopped. Started again as quiescing, it reads none of them.
    5. Released, it reads them."""
    topic = slow.topic(3)
    spec = slow.spec("held", topic)
    quiescing = spec.model_copy(update={"quiescing": True})
    checkpoint = Path(slow.host.start(spec).result["checkpoint"])
    slow.host.wait_for_records(spec.task_id, 3)
    slow.live(quiescing)
    wait_until(lambda: slow.host.progress[spec.task_id].quiesced, 30, "the task to be quiet")
    planned = batches(checkpoint)
    slow.produce(topic, 3)
    assert slow.reports_quiet(spec.task_id, 10)
    assert batches(checkpoint) == planned
    slow.live(spec)
    slow.host.wait_for_records(spec.task_id, 6)
    wait_until(lambda: not slow.host.progress[spec.task_id].quiesced, 30, "the task to be busy again")
    slow.live(quiescing)
    wait_until(lambda: slow.host.progress[spec.task_id].quiesced, 30, "the task to be quiet")
    assert slow.seconds_to_stop("held") < LONGEST_STOP_SECONDS
    planned = batches(checkpoint)
    slow.produce(topic, 3)
    assert slow.host.start(quiescing).ok
    assert slow.reports_quiet(spec.task_id, 10)
    assert batches(checkpoint) == planned
    slow.live(spec)
    slow.host.wait_for_records(spec.task_id, 9)
    assert slow.seconds_to_stop("held") < LONGEST_STOP_SECONDS


def batches(checkpoint: Path) -> set[str]:
    """The batches that were planned."""
    return {path.name for path in checkpoint.glob("offsets/[0-9]*")}


def test_a_stopped_host_cannot_keep_its_jvm_alive(slow: Slow) -> None:
    """The last test of the shared host. SIGSTOP stops the Python process only: the JVM has a watch of its own."""
    for seconds in (60.0, 2.0):  # the first lease takes a while: the JVM's watch is loaded for it
        slow.host.host.send(Lease(id=0, seconds=seconds)).result(REPLY_SECONDS)
    os.kill(slow.host.host.pid, signal.SIGSTOP)
    wait_gone(jvm_pid(slow.host), 2.0 + 3.0 + END_SECONDS)
    os.kill(slow.host.host.pid, signal.SIGCONT)
    assert slow.host.exit.result(5) is ExitReason.LEASE_LOST
