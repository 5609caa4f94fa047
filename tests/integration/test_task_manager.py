"""A real Task Manager with real Spark hosts, Kafka and store; the Shard Manager and Task Service are the test's."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
from sqlalchemy import Engine, text

from penstock.control.process import kill_group, start_child, stop_group, wait_until
from penstock.local.jars import share_dir
from penstock.local.kafka import EmbeddedKafka
from penstock.local.ports import free_port
from penstock.store.engine import transaction
from penstock.tasks.spec import TaskTemplate
from tests.support.spark.hosts import job_config, make_topic, produce, quick_start, rows_of_files
from tests.support.task_manager.control_plane import FakeCell, fake_cell

# tests/e2e does the like with the real services; these are for what only a Shard Manager of the test's can show.
pytestmark = pytest.mark.long
KEY_GROUPS = 2
LEASE_SECONDS = 6.0
STOP_SECONDS = 3.0
START_SECONDS = 90.0


class ManagerProcess:
    """A Task Manager and its hosts, seen from outside."""

    def __init__(self, process: subprocess.Popen[bytes], url: str, log: Path) -> None:
        self.process = process
        self.url = url
        self.log = log

    def get(self, path: str = "/v1/tasks") -> Any:
        return httpx.get(f"{self.url}{path}", timeout=5, trust_env=False).json()

    def metric(self, name: str) -> float:
        text = httpx.get(f"{self.url}/metrics", timeout=5, trust_env=False).text
        return float(next(line.split()[1] for line in text.splitlines() if line.startswith(f"{name} ")))

    def processes(self) -> list[psutil.Process]:
        """Its hosts and their JVMs."""
        return psutil.Process(self.process.pid).children(recursive=True)

    def hosts(self) -> list[psutil.Process]:
        """Its hosts: the direct children."""
        return psutil.Process(self.process.pid).children()


@pytest.fixture
def cell(engine: Engine) -> Iterator[FakeCell]:
    with fake_cell(engine, LEASE_SECONDS) as cell:
        yield cell


@contextmanager
def task_manager(folder: Path, cell: FakeCell, database_url: str, bootstrap: str) -> Iterator[ManagerProcess]:
    port = free_port()
    settings = {
        "CONTAINER": "c1",
        "PORT": port,
        "DATABASE_URL": database_url,
        "DATA_DIR": folder,
        "TASK_SERVICE_URL": cell.url,
        "SHARD_MANAGER_URL": cell.url,
        "KAFKA_BOOTSTRAP": bootstrap,
        "CHECKPOINT_ROOT": folder / "checkpoints",
        "PACKAGES_ROOT": folder / "packages",
        "SPARK_LOCAL_DIR": folder / "spark",
        "JARS": share_dir() / "jars",
        "SPARK_MASTER": "local[2]",
        "HEAP_BYTES": 600 * 2**20,
        "SPARK_CONF": json.dumps(quick_start()),
        "PROGRESS_INTERVAL_SECONDS": 0.3,
        "HEARTBEAT_SECONDS": 0.5,
        "RETRY_SECONDS": 0.3,
        "CONTAINER_LEASE_SECONDS": LEASE_SECONDS,
        "LEASE_STOP_SECONDS": STOP_SECONDS,
        "LEASE_GRACE_SECONDS": STOP_SECONDS,
        "REPORT_SECONDS": 0.5,
        "RECONCILE_SECONDS": 0.2,
    }
    environment = {**os.environ, **{f"PENSTOCK_{name}": str(value) for name, value in settings.items()}}
    log = folder / "task_manager.log"
    process = start_child([sys.executable, "-m", "services.task_manager"], env=environment, log_path=log)
    try:
        yield ManagerProcess(process, f"http://127.0.0.1:{port}", log)
    finally:
        stop_group(process, 20)


def files_job(topic: str, folder: Path, **more: Any) -> TaskTemplate:
    config = job_config(topic, KEY_GROUPS, {"type": "files", "path": str(folder / "out")}, task_count=2, **more)
    return TaskTemplate(job="copy", commit_number=1, revision=1, generation=1, restarts=0, config=config)


def numbers(lo: int, hi: int) -> Iterator[dict[str, Any]]:
    return ({"n": n, "word": "w", "at": "2024-01-01T00:00:00Z"} for n in range(lo, hi))


def rows(folder: Path) -> list[int]:
    """What the two tasks have committed, in order; a number twice would be there twice."""
    tasks = [log.parent for log in (folder / "out").glob("g*/task-*/_spark_metadata") if _has_files(log)]
    return sorted(int(n) for task in tasks for n in rows_of_files(task)["n"])


def _has_files(log: Path) -> bool:
    """Whether the sink's log names any file yet; a batch may be empty, and a log be about to appear."""
    return any('"path"' in batch.read_text() for batch in log.iterdir() if batch.name.isdigit())


def await_rows(folder: Path, count: int) -> None:
    wait_until(lambda: len(rows(folder)) >= count, START_SECONDS, f"{count} rows", poll_s=0.2)
    assert rows(folder) == list(range(count))


def await_running(cell: FakeCell, count: int = 2) -> None:
    def run() -> bool:
        states = [task.state.value for task in cell.tasks().values()]
        return states == ["running"] * count

    wait_until(run, START_SECONDS, "the tasks to run")


def runs(process: psutil.Process) -> bool:
    """Whether it still executes anything; a zombie does not."""
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def renewed_at(engine: Engine) -> Any:
    """When the container last renewed its lease by itself; None before it ever had to."""
    with transaction(engine) as connection:
        return connection.execute(text("SELECT lease_renewed_at FROM containers")).scalar_one()


def test_hosts_services_and_the_task_manager_itself_are_killed_and_no_row_is_lost(
    tmp_path: Path, cell: FakeCell, engine: Engine, database_url: str, kafka: EmbeddedKafka
) -> None:
    """
    1. Tasks start because the services say so; rows arrive.
    2. The host is killed: it is replaced, and the tasks resume.
    3. All services go down for longer than a lease: rows still arrive, by the stored lease.
    4. The Task Manager is killed with the services still down: its hosts die with it; a new one resumes from its disk.
    5. The services come back, and the job is deleted: the tasks stop, and so does the Task Manager when asked.
    """
    topic = make_topic(kafka.bootstrap, KEY_GROUPS)
    cell.run(files_job(topic, tmp_path))
    produce(kafka.bootstrap, topic, numbers(0, 100), KEY_GROUPS)
    with task_manager(tmp_path, cell, database_url, kafka.bootstrap) as first:
        await_running(cell)
        await_rows(tmp_path, 100)
        (host,) = first.hosts()
        host.kill()
        wait_until(lambda: max((t.crashes for t in cell.tasks().values()), default=0), 30, "the crash to be reported")
        produce(kafka.bootstrap, topic, numbers(100, 200), KEY_GROUPS)
        await_rows(tmp_path, 200)
        cell.down = True
        epochs = {task["epoch"] for task in first.get()["tasks"]}
        starts = first.metric("penstock_task_starts_total")
        went_down_at = wait_until(lambda: renewed_at(engine), 10, "the container to renew its own lease")
        two_leases = timedelta(seconds=2 * LEASE_SECONDS)
        wait_until(lambda: renewed_at(engine) - went_down_at > two_leases, 60, "two leases to pass", poll_s=0.5)
        produce(kafka.bootstrap, topic, numbers(200, 300), KEY_GROUPS)
        await_rows(tmp_path, 300)
        assert first.metric("penstock_task_starts_total") == starts
        assert {task["epoch"] for task in first.get()["tasks"]} == epochs
        children = first.processes()
        kill_group(first.process)
        wait_until(lambda: not any(runs(child) for child in children), 10, "the hosts to die with it")
    produce(kafka.bootstrap, topic, numbers(300, 400), KEY_GROUPS)
    with task_manager(tmp_path, cell, database_url, kafka.bootstrap) as second:
        await_rows(tmp_path, 400)
        assert min(task["epoch"] for task in second.get()["tasks"]) > max(epochs)
        cell.down = False
        await_running(cell)
        assert second.get("/readyz")["service"] == "task_manager"
        assert second.metric("task_double_run_seconds") == 0
        cell.run()
        wait_until(lambda: cell.tasks() == {}, 30, "the tasks to stop")
        children = second.processes()
        assert stop_group(second.process, 20) == 0
        wait_until(lambda: not any(runs(child) for child in children), 5, "the hosts to be gone")


def test_a_task_manager_that_slept_past_its_lease_begins_anew(
    tmp_path: Path, cell: FakeCell, database_url: str, kafka: EmbeddedKafka
) -> None:
    """
    1. A task runs; the Task Manager is stopped by a signal: its host ends by itself when the lease has run out.
    2. It is continued: it begins another life, its tasks start again, and no row is lost or repeated.
    """
    topic = make_topic(kafka.bootstrap, KEY_GROUPS)
    cell.run(files_job(topic, tmp_path))
    produce(kafka.bootstrap, topic, numbers(0, 100), KEY_GROUPS)
    with task_manager(tmp_path, cell, database_url, kafka.bootstrap) as manager:
        await_running(cell)
        await_rows(tmp_path, 100)
        incarnation = cell.heartbeats[-1].incarnation
        (host,) = manager.hosts()
        manager.process.send_signal(signal.SIGSTOP)
        wait_until(
            lambda: host.status() == psutil.STATUS_ZOMBIE, LEASE_SECONDS + 2 * STOP_SECONDS + 5, "the host to end"
        )
        produce(kafka.bootstrap, topic, numbers(100, 200), KEY_GROUPS)
        manager.process.send_signal(signal.SIGCONT)
        wait_until(lambda: cell.heartbeats[-1].incarnation != incarnation, 20, "another life")
        await_rows(tmp_path, 200)
        assert manager.metric("task_double_run_seconds") == 0
