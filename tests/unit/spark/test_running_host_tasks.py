"""Host tasks in a host: one that hangs is told of, and takes only what belongs to host tasks."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from penstock.control.errors import Unavailable
from penstock.control.process import wait_until
from penstock.spark.host import handlers
from penstock.spark.host.handlers import RunningHostTasks
from penstock.spark.settings import SparkSettings
from penstock.spark.task import Runtime
from penstock.tasks.host_task import POLICIES, REMOVE_SAVEPOINT, HostTask
from penstock.tasks.savepoint import SavepointRemoval
from tests.support.control.clock import FakeClock


def removal(number: int) -> HostTask:
    return HostTask(leader_epoch=1, request=SavepointRemoval(job=f"j{number}", name="s", number=number))


def test_tasks_that_hang_are_reported_once_and_then_others_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """1. Two tasks hang on two threads; within their limit nothing is said. 2. Past it each is reported once. 3. A
    third is refused at once, with their keys. 4. They end: the next one is carried out."""
    go, begun = threading.Event(), []

    def hang(runtime: Runtime, request: SavepointRemoval) -> None:
        begun.append(request.number)
        assert go.wait(30)

    monkeypatch.setattr(handlers, "HANDLERS", {REMOVE_SAVEPOINT: hang})
    nobody: Any = None
    settings = SparkSettings(checkpoint_root=str(tmp_path), kafka_bootstrap="127.0.0.1:9", packages_root=tmp_path)
    clock, done = FakeClock(), list[Future[Any]]()
    tasks = RunningHostTasks(Runtime(nobody, settings, "host"), lambda: None, clock, threads=2)
    for number in (1, 2):
        tasks.submit(removal(number), done.append)
    wait_until(lambda: sorted(begun) == [1, 2], 10, "both to begin")
    with capture_logs() as logs:
        tasks.report_hung()
        assert logs == []
        clock.seconds += POLICIES[REMOVE_SAVEPOINT].longest_seconds + 1
        for _ in range(2):
            tasks.report_hung()
    assert sorted(line["key"] for line in logs) == ["remove_savepoint:j1:1", "remove_savepoint:j2:2"]
    assert {line["event"] for line in logs} == {"host task hangs"}
    tasks.submit(removal(3), done.append)
    (refused,) = done
    assert isinstance(refused.exception(), Unavailable)
    assert "remove_savepoint:j1:1, remove_savepoint:j2:2" in str(refused.exception())
    go.set()
    wait_until(lambda: len(done) == 3 and not tasks.hung(), 10, "both to end")
    tasks.submit(removal(4), done.append)
    wait_until(lambda: len(done) == 4, 10, "the next one")
    assert begun[-1] == 4
