"""What the supervisor's side believes of a host: nothing that lets its code have other processes killed.

The host is a real process with a script in place of Spark: it says what code of a package could say.
"""

from __future__ import annotations

import json
import queue
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from penstock.control import process
from penstock.control.process import kill_group, start_child, wait_until
from penstock.spark.channel import Event, Ready
from penstock.spark.host import client
from penstock.spark.host.client import HostProcess
from penstock.spark.host.exits import ExitReason
from penstock.spark.settings import SparkSettings

_SECONDS = 20.0
_HOST = """
import json, os, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
events = int(sys.argv[sys.argv.index("--events") + 1])
def say(pid):
    os.write(events, json.dumps({"type": "ready", "pid": os.getpid(), "jvm_pid": pid}).encode() + b"\\n")
say(2**31 - 1)
for pid in json.loads(sys.argv[1]):
    say(pid or child.pid)
time.sleep(600)
"""
_OF_NONSENSE = """
import os, sys, time
os.write(int(sys.argv[sys.argv.index("--events") + 1]), b"nonsense\\n")
time.sleep(600)
"""
Start = Callable[[list[int]], HostProcess]
CHILD = 0
"""In place of a pid: that of the host's own child."""


@pytest.fixture
def stranger() -> Iterator[subprocess.Popen[bytes]]:
    """A process of nobody's host, with a group of its own."""
    child = start_child([sys.executable, "-c", "import time; time.sleep(600)"])
    yield child
    kill_group(child)


class Signals:
    """The groups that were to get a signal. Only `own` ones really get it: the tests may run as root, and to the kernel
    group 1 is every process of the machine."""

    def __init__(self) -> None:
        self.own = set[int]()
        self.groups = list[int]()

    def send(self, group: int, number: int) -> bool:
        self.groups.append(group)
        return group in self.own and process.signal_group(group, number)


@pytest.fixture(autouse=True)
def signals(monkeypatch: pytest.MonkeyPatch) -> Signals:
    found = Signals()
    monkeypatch.setattr(client, "signal_group", found.send)
    return found


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, signals: Signals) -> Iterator[Start]:
    """Starts a host that says `Ready` with a JVM of each of these pids, and before them one of no process."""
    hosts, children = list[HostProcess](), list[psutil.Process]()

    def begin(said: list[int]) -> HostProcess:
        monkeypatch.setattr(client, "command_of", lambda _: [sys.executable, "-c", _HOST, json.dumps(said)])
        events, ends = queue.Queue[Event](), queue.Queue[ExitReason]()
        host = HostProcess("h1", SparkSettings(checkpoint_root="/c"), tmp_path / "h1.log", events.put, ends.put)
        hosts.append(host)
        assert isinstance(events.get(timeout=_SECONDS), Ready)
        own = psutil.Process(host.pid).children()
        children.extend(own)
        signals.own |= {host.pid, *(child.pid for child in own)}
        for _ in said:
            assert isinstance(events.get(timeout=_SECONDS), Ready)
        return host

    yield begin
    for host in hosts:
        host.kill()
    for child in children:
        with suppress(psutil.NoSuchProcess):
            child.kill()


def test_a_host_is_killed_with_the_jvm_that_is_its_child(start: Start) -> None:
    host = start([CHILD])
    (child,) = psutil.Process(host.pid).children()
    host.kill()
    wait_until(lambda: not child.is_running() or child.status() == psutil.STATUS_ZOMBIE, _SECONDS, "the JVM to end")


@pytest.mark.parametrize("first", [[], [CHILD]])
@pytest.mark.parametrize("last", [[], [CHILD]])
def test_no_other_process_is_killed_whatever_the_host_says(
    start: Start,
    stranger: subprocess.Popen[bytes],
    signals: Signals,
    first: list[int],
    last: list[int],
) -> None:
    host = start([*first, stranger.pid, *last])
    allowed = {host.pid, *(child.pid for child in psutil.Process(host.pid).children())}
    host.kill()
    assert host.pid in signals.groups
    assert set(signals.groups) <= allowed


@pytest.mark.parametrize("pid", [-1, 1, 2**31, 2**70])
def test_a_number_that_is_no_child_is_no_jvm(start: Start, signals: Signals, pid: int) -> None:
    host = start([pid])
    host.kill()
    assert signals.groups == [host.pid]


def test_a_child_that_has_become_another_process_is_not_killed(
    start: Start, stranger: subprocess.Popen[bytes], signals: Signals
) -> None:
    """Its number may be another's by the time of the kill."""
    host = start([CHILD])
    host._jvm = psutil.Process(stranger.pid)
    host.kill()
    assert signals.groups == [host.pid]


@pytest.mark.parametrize("group", [-1, 0, 1])
def test_the_kernels_words_for_many_processes_are_no_group(group: int) -> None:
    with pytest.raises(ValueError, match="no process group"):
        process.signal_group(group, 0)


def test_a_host_that_says_what_is_no_event_ends_as_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, signals: Signals
) -> None:
    """Else nobody would read its events any more, and its end would never be told."""
    monkeypatch.setattr(client, "command_of", lambda _: [sys.executable, "-c", _OF_NONSENSE])
    events, ends = queue.Queue[Event](), queue.Queue[ExitReason]()
    host = HostProcess("h1", SparkSettings(checkpoint_root="/c"), tmp_path / "h1.log", events.put, ends.put)
    try:
        assert ends.get(timeout=5) is ExitReason.KILLED
    finally:
        host.kill()
