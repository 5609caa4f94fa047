"""One stack of real processes for all end-to-end tests, with periods short enough to wait for.

The order of the periods is that of production: heartbeat << lease < fail-over.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator
from pathlib import Path

import psutil
import pytest

from penstock.control.process import wait_until
from tests.support.chaos.stack import ChaosStack
from tests.support.cli.shell import Shell
from tests.support.cli.terminal import Terminal
from tests.support.job_service.webhook import Webhook, webhook
from tests.support.spark.hosts import quick_start
from tests.support.stack.account import account
from tests.support.stack.counts import CountJob
from tests.support.stack.rows import RowJob

LEASE_SECONDS = 9.0
FAIL_OVER_SECONDS = 14.0
PERIODS = {
    "PENSTOCK_HEARTBEAT_SECONDS": 1,
    "PENSTOCK_HELD_BACK_ALERT_SECONDS": 20,
    "PENSTOCK_HEARTBEAT_TIMEOUT_SECONDS": 2,
    "PENSTOCK_RETRY_SECONDS": 0.5,
    "PENSTOCK_CONTAINER_LEASE_SECONDS": LEASE_SECONDS,
    "PENSTOCK_LEASE_STOP_SECONDS": 3,
    "PENSTOCK_LEASE_GRACE_SECONDS": 3,
    "PENSTOCK_FAIL_OVER_SECONDS": FAIL_OVER_SECONDS,
    "PENSTOCK_SHARD_MANAGER_ROUND_SECONDS": 0.5,
    "PENSTOCK_SHARD_MANAGER_LEASE_SECONDS": 4,
    "PENSTOCK_STATE_SYNCER_PERIOD_SECONDS": 2,
    "PENSTOCK_STATE_SYNCER_LEASE_SECONDS": 4,
    "PENSTOCK_STATE_SYNCER_RENEW_SECONDS": 1,
    "PENSTOCK_STATE_SYNCER_HEALTHY_SECONDS": 1,
    "PENSTOCK_STATE_SYNCER_GENERATION_HOURS": 0.0005,
    "PENSTOCK_STATE_SYNCER_GENERATION_LOOK_SECONDS": 1,
    "PENSTOCK_BROKEN_FIRST_SECONDS": 1,
    "PENSTOCK_FULL_FETCH_SECONDS": 5,
    "PENSTOCK_REPORT_SECONDS": 0.5,
    "PENSTOCK_LOAD_INTERVAL_SECONDS": 1,
    "PENSTOCK_DISK_INTERVAL_SECONDS": 2,
    "PENSTOCK_LOAD_FIRST_SECONDS": 2,
    "PENSTOCK_LOAD_REPORT_SECONDS": 5,
    "PENSTOCK_SCALER_PERIOD_SECONDS": 5,
    "PENSTOCK_SCALER_LEASE_SECONDS": 4,
    "PENSTOCK_SCALER_RENEW_SECONDS": 1,
    "PENSTOCK_INPUTS_INTERVAL_SECONDS": 5,
    "PENSTOCK_HEAP_BYTES": 768 * 2**20,
    "PENSTOCK_SPARK_CONF": json.dumps(quick_start()),
    "PENSTOCK_LOG_FORMAT": "json",
}


@pytest.fixture(scope="package")
def collector() -> Iterator[Webhook]:
    """Gets the traces of the stack."""
    with webhook() as running:
        yield running


@pytest.fixture(scope="package")
def stack(servers_dir: Path, collector: Webhook) -> Iterator[ChaosStack]:
    """Postgres, Kafka, every service and two Task Managers, through a proxy; some die when a test orders it.

    Not below pytest's own folder: each start of pytest closes that folder to Postgres's account.
    """
    folder = servers_dir / "stack"
    folder.mkdir()
    environment = {name: str(value) for name, value in PERIODS.items()} | {"PENSTOCK_TRACES_URL": collector.url}
    with ChaosStack(folder, task_managers=2, free_ports=True, environment=environment) as running:
        yield running
    # Python workers of Spark end by themselves when their JVM has ended.
    wait_until(lambda: not _left(folder), 10, "the processes of the stack to end")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A failed test shows the stack's own account, for its logs go with the temporary folder."""
    report = yield
    running = getattr(item, "funcargs", {}).get("stack")
    if report.failed and running is not None:
        report.sections.append(("The stack's own account", account(running)))
    return report


def _left(folder: Path) -> list[int]:
    """The ids of the processes whose environment names the folder."""
    return [process.pid for process in psutil.process_iter() if str(folder) in _environment(process)]


def _environment(process: psutil.Process) -> str:
    """The values of a process's environment; none when it has ended, or is somebody else's."""
    try:
        return " ".join(process.environ().values())
    except psutil.Error:
        return ""


@pytest.fixture
def terminal(
    stack: ChaosStack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Terminal:
    """A terminal in which the CLI finds the stack."""
    return Terminal(stack, tmp_path, Shell(monkeypatch, capsys), monkeypatch)


@pytest.fixture(scope="package")
def rows(stack: ChaosStack) -> Iterator[RowJob]:
    """A job of two tasks that copies rows from a topic to a Postgres table.

    One for all stories: a story begins with what the one before left, and judges every row that was ever sent.
    """
    job = RowJob(stack, "rows")
    job.create()
    yield job
    job.delete()


@pytest.fixture(scope="package")
def counts(stack: ChaosStack) -> Iterator[CountJob]:
    """A job of two tasks, or of as many as the last story left, that counts rows by word. One for all rescales."""
    job = CountJob(stack, "counts")
    job.create(task_count=2)
    yield job
    job.delete()
