"""A Task Manager with Spark hosts, Kafka, store and services, of which one after another is killed or goes away."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import psutil
import pytest
from sqlalchemy import Engine, text

from penstock.control.process import kill_group, start_child, stop_group, wait_until
from penstock.local.jars import share_dir
from penstock.local.kafka import EmbeddedKafka
from penstock.local.ports import free_port
from penstock.store.cluster import ask_for_shards
from penstock.store.engine import transaction
from penstock.tasks.spec import TaskTemplate
from tests.support import calls, identity
from tests.support.shard_manager.manager import shard_manager
from tests.support.spark.hosts import job_config, make_topic, produce, quick_start, rows_of_files
from tests.support.store.running import commit_config
from tests.support.task_service.service import task_service

# tests/e2e does the like on a whole stack; these hold what a restart from the disk and a sleep past the lease do.
pytestmark = pytest.mark.long
KEY_GROUPS = 2
LEASE_SECONDS = 6.0
STOP_SECONDS = 3.0
PERIODS = {"container_lease_seconds": LEASE_SECONDS, "fail_over_seconds": 60.0, "shard_manager_lease_seconds": 10.0}
SHARDS = 4
START_SECONDS = 180.0


class ManagerProcess:
    """A Task Manager and its hosts, seen from outside."""

    def __init__(self, process: subprocess.Popen[bytes], url: str, log: Path) -> None:
        self.process = process
        self.url = url
        self.log = log

    def get(self, path: str = "/v1/tasks") -> Any:
        return calls.get(f"{self.url}{path}", timeout=5, trust_env=False, auth=identity.auth(identity.OBSERVER)).json()

    def metric(self, name: str) -> float:
        text = calls.get(f"{self.url}/metrics", timeout=5, trust_env=False).text
        return float(next(line.split()[1] for line in text.splitlines() if line.startswith(f"{name} ")))

    def processes(self) -> list[psutil.Process]:
        """Its hosts and their JVMs."""
        return psutil.Process(self.process.pid).children(recursive=True)

    def hosts(self) -> list[psutil.Process]:
        """Its hosts: the direct children."""
        return psutil.Process(self.process.pid).children()


class Services:
    """A Shard Manager and a Task Service, each at an address that it keeps. The store beneath them stays."""

    def __init__(self, engine: Engine, database_url: str) -> None:
        self._engine = engine
        self._database_url = database_url
        self._ports = free_port(), free_port()
        self.shard_manager_url, self.task_service_url = (f"http://127.0.0.1:{port}" for port in self._ports)
        self._up = ExitStack()
        with transaction(engine) as connection:
            ask_for_shards(connection, SHARDS)

    def start(self) -> None:
        """Both are new processes, as it were: they know what the store says."""
        for_managers, for_tasks = self._ports
        self._up.enter_context(shard_manager(self._database_url, port=for_managers, **PERIODS)).lead()
        self._up.enter_context(task_service(self._database_url, port=for_tasks)).has_read()

    def stop(self) -> None:
        self._up.close()

    def run(self, template: TaskTemplate, *, stopping: bool = False) -> None:
        """Commits the job, or that it is to stop."""
        commit_config(self._engine, template.job, template.config.model_dump_json(), stopping=stopping)

    def tasks(self) -> list[Any]:
        """The tasks that the container reported last."""
        return self._rows("SELECT state, crashes FROM tasks ORDER BY index")

    def incarnation(self) -> str:
        """The container's life, by the store."""
        return str(self._rows("SELECT incarnation FROM containers")[0].incarnation)

    def renewed_at(self) -> Any:
        """When the container last renewed its lease by itself; None before it ever had to."""
        return self._rows("SELECT lease_renewed_at FROM containers")[0].lease_renewed_at

    def _rows(self, sql: str) -> list[Any]:
        with transaction(self._engine) as connection:
            return list(connection.execute(text(sql)))


@pytest.fixture
def services(engine: Engine, database_url: str) -> Iterator[Services]:
    services = Services(engine, database_url)
    services.start()
    yield services
    services.stop()


@contextmanager
def task_manager(folder: Path, services: Services, database_url: str, bootstrap: str) -> Iterator[ManagerProcess]:
    port = free_port()
    settings = {
        "CONTAINER": "c1",
        "PORT": port,
        "DATABASE_URL": database_url,
        "DATA_DIR": folder,
        "TASK_SERVICE_URL": services.task_service_url,
        "SHARD_MANAGER_URL": services.shard_manager_url,
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


def await_running(services: Services, count: int = 2) -> None:
    wait_until(
        lambda: [task.state for task in services.tasks()] == ["running"] * count, START_SECONDS, "the tasks to run"
    )


def runs(process: psutil.Process) -> bool:
    """Whether it still executes anything; a zombie does not."""
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_hosts_services_and_the_task_manager_itself_are_killed_and_no_row_is_lost(
    tmp_path: Path, services: Services, database_url: str, kafka: EmbeddedKafka
) -> None:
    """
    1. Tasks start because the services say so; rows arrive.
    2. The host is killed: it is replaced, and the tasks resume.
    3. All services go down for longer than a lease: rows still arrive, by the stored lease.
    4. The Task Manager is killed with the services still down: its hosts die with it; a new one resumes from its disk.
    5. The services come back, and the job is deleted: the tasks stop, and so does the Task Manager when asked.
    """
    topic = make_topic(kafka.bootstrap, KEY_GROUPS)
    job = files_job(topic, tmp_path)
    services.run(job)
    produce(kafka.bootstrap, topic, numbers(0, 100), KEY_GROUPS)
    with task_manager(tmp_path, services, database_url, kafka.bootstrap) as first:
        await_running(services)
        await_rows(tmp_path, 100)
        (host,) = first.hosts()
        host.kill()
        wait_until(lambda: max((task.crashes for task in services.tasks()), default=0), 30, "the crash to be reported")
        produce(kafka.bootstrap, topic, numbers(100, 200), KEY_GROUPS)
        await_rows(tmp_path, 200)
        services.stop()
        epochs = {task["epoch"] for task in first.get()["tasks"]}
        starts = first.metric("penstock_task_starts_total")
        went_down_at = wait_until(services.renewed_at, 10, "the container to renew its own lease")
        two_leases = timedelta(seconds=2 * LEASE_SECONDS)
        wait_until(lambda: services.renewed_at() - went_down_at > two_leases, 60, "two leases to pass", poll_s=0.5)
        produce(kafka.bootstrap, topic, numbers(200, 300), KEY_GROUPS)
        await_rows(tmp_path, 300)
        assert first.metric("penstock_task_starts_total") == starts
        assert {task["epoch"] for task in first.get()["tasks"]} == epochs
        children = first.processes()
        kill_group(first.process)
        wait_until(lambda: not any(runs(child) for child in children), 10, "the hosts to die with it")
    produce(kafka.bootstrap, topic, numbers(300, 400), KEY_GROUPS)
    with task_manager(tmp_path, services, database_url, kafka.bootstrap) as second:
        await_rows(tmp_path, 400)
        assert min(task["epoch"] for task in second.get()["tasks"]) > max(epochs)
        services.start()
        await_running(services)
        assert second.get("/readyz")["service"] == "task_manager"
        assert second.metric("task_double_run_seconds") == 0
        services.run(job, stopping=True)
        wait_until(lambda: services.tasks() == [], 30, "the tasks to stop")
        children = second.processes()
        assert stop_group(second.process, 20) == 0
        wait_until(lambda: not any(runs(child) for child in children), 5, "the hosts to be gone")


def test_a_task_manager_that_slept_past_its_lease_begins_anew(
    tmp_path: Path, services: Services, database_url: str, kafka: EmbeddedKafka
) -> None:
    """
    1. A task runs; the Task Manager is stopped by a signal: its host ends by itself when the lease has run out.
    2. It is continued: it begins another life, its tasks start again, and no row is lost or repeated.
    """
    topic = make_topic(kafka.bootstrap, KEY_GROUPS)
    services.run(files_job(topic, tmp_path))
    produce(kafka.bootstrap, topic, numbers(0, 100), KEY_GROUPS)
    with task_manager(tmp_path, services, database_url, kafka.bootstrap) as manager:
        await_running(services)
        await_rows(tmp_path, 100)
        incarnation = services.incarnation()
        (host,) = manager.hosts()
        manager.process.send_signal(signal.SIGSTOP)
        wait_until(
            lambda: host.status() == psutil.STATUS_ZOMBIE, LEASE_SECONDS + 2 * STOP_SECONDS + 5, "the host to end"
        )
        produce(kafka.bootstrap, topic, numbers(100, 200), KEY_GROUPS)
        manager.process.send_signal(signal.SIGCONT)
        wait_until(lambda: services.incarnation() != incarnation, 20, "another life")
        await_rows(tmp_path, 200)
        assert manager.metric("task_double_run_seconds") == 0
