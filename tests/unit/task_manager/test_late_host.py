"""A host that waits for its environment: what is asked of it meanwhile, and what comes of a build that fails."""

from __future__ import annotations

import threading
from collections.abc import Callable
from unittest.mock import Mock

import pytest

from penstock.control.errors import BrokenTask
from penstock.control.process import wait_until
from penstock.spark.channel import Lease
from services.task_manager.decide.model import HostExit
from services.task_manager.hosts.late_host import LateHost

PATIENCE_S = 10.0


class Build:
    """A build that goes on until it may end; then `start` is what starts the process, or raises."""

    def __init__(self) -> None:
        self.may_end = threading.Event()
        self.ended = threading.Event()
        self.exits = 0
        self.process = Mock()
        self.error: Exception | None = None
        self.host = LateHost(self._prepare, self._over)

    def _prepare(self) -> Callable[[], Mock]:
        assert self.may_end.wait(PATIENCE_S)
        self.ended.set()
        if self.error is not None:
            raise self.error
        return self._start

    def _start(self) -> Mock:
        self.process.started()
        return self.process

    def _over(self) -> None:
        self.exits += 1


@pytest.fixture
def build() -> Build:
    return Build()


def test_what_was_sent_before_is_sent_in_order_when_the_process_is_there(build: Build) -> None:
    leases = [Lease(id=number, seconds=40.0, sent_at=1.0) for number in range(3)]
    for lease in leases[:2]:
        build.host.send(lease)
    assert (build.host.exit(), build.host.has_lapsed(), build.process.mock_calls) == (None, False, [])
    build.may_end.set()
    wait_until(lambda: build.process.send.call_count == 2, PATIENCE_S, "the first two commands")
    build.host.send(leases[2])
    assert [call.args[0] for call in build.process.send.call_args_list] == leases
    build.process.exit.return_value = HostExit("asked")
    assert build.host.exit() == HostExit("asked")
    build.host.kill()
    build.process.kill.assert_called_once_with()
    assert build.exits == 0, "the process tells of its own end"


def test_one_that_is_killed_meanwhile_never_starts(build: Build) -> None:
    build.host.kill()
    assert (build.host.exit(), build.exits) == (HostExit("killed"), 1)
    build.may_end.set()
    wait_until(lambda: build.exits == 2, PATIENCE_S, "the end of the build, when its environment is given back")
    assert build.host.exit() == HostExit("killed")
    build.process.started.assert_not_called()


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), BrokenTask("no zip file")])
def test_a_build_that_fails_is_the_end_of_the_host(build: Build, error: Exception) -> None:
    build.error = error
    build.may_end.set()
    wait_until(lambda: build.exits, PATIENCE_S, "the end")
    assert build.host.exit() == HostExit(f"no process could be made: {error}")
    build.host.send(Lease(id=1, seconds=40.0))
    build.host.kill()
    assert build.host.exit() == HostExit(f"no process could be made: {error}")
