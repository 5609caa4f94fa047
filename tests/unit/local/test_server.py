"""The start of an embedded server: one that is slow, and one that fails half-way."""

from __future__ import annotations

import itertools
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.control import process
from penstock.control.errors import TerminalError
from penstock.control.process import start_child
from penstock.local import kafka
from penstock.local.kafka import EmbeddedKafka
from penstock.local.server import EmbeddedServer


class _Server(EmbeddedServer):
    """A process of a shell. It is said to serve when it has been asked `looks` times."""

    name = "server"
    pid_file = "server.pid"
    shutdown_signal = signal.SIGTERM

    def __init__(self, folder: Path, script: str, looks: int) -> None:
        super().__init__(folder / "data", "here", folder / "server.log", [script])
        self._script = script
        self.answers_after(looks)

    def answers_after(self, looks: int) -> None:
        """It serves when it has been asked so often from now on."""
        self._looks: Iterator[int] = itertools.count(1)
        self._after = looks

    def _launch(self) -> subprocess.Popen[bytes]:
        return start_child(["sh", "-c", self._script], log_path=self.log_path)

    def _answers(self) -> bool:
        return next(self._looks) >= self._after


class _Leaping:
    """A clock of which a minute goes by between two looks, and on which nobody waits."""

    def __init__(self) -> None:
        self._now = 0.0

    def monotonic(self) -> float:
        self._now += 60.0
        return self._now

    def sleep(self, seconds: float) -> None:
        """Nothing: the next look comes at once."""


def test_a_server_that_lives_is_waited_for_however_long_it_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = _Server(tmp_path, "exec sleep 60", looks=20)
    with monkeypatch.context() as patched:
        patched.setattr(process, "time", _Leaping())
        assert server.start() == "here"
    assert server.exit_code() is None
    server.stop()


def test_a_server_that_is_started_again_and_never_answers_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """1. It serves, and is killed. 2. Started again it lives and does not answer: it is ended, for another attempt.
    3. That one serves."""
    with _Server(tmp_path, "exec sleep 60", looks=1) as server:
        server.kill()
        server.answers_after(20)
        with monkeypatch.context() as patched:
            patched.setattr(process, "time", _Leaping())
            with pytest.raises(TimeoutError, match=r"^waited 90 s for server to answer$"):
                server.start_again()
        assert server.pid is None
        server.answers_after(1)
        server.start_again()
        assert server.pid is not None
        assert server.exit_code() is None


def test_a_server_that_ends_before_it_serves_is_told_with_the_end_of_its_log(tmp_path: Path) -> None:
    server = _Server(tmp_path, "seq 100; echo no room; exit 3", looks=1000)
    with pytest.raises(TerminalError) as failure:
        server.start()
    first, *told = failure.value.detail.splitlines()
    assert first == f"server ended (exit 3) before it answered; the end of {server.log_path}:"
    assert told == [str(number) for number in range(82, 101)] + ["no room"]


def test_a_server_whose_log_is_empty_is_told_without(tmp_path: Path) -> None:
    server = _Server(tmp_path, "kill -9 $$", looks=1000)
    with pytest.raises(TerminalError, match=r"ended \(signal 9\) .*\n\(it is empty\)$"):
        server.start()


def test_a_broker_whose_pid_cannot_be_noted_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[subprocess.Popen[bytes]] = []

    def record(*words: Any, **options: Any) -> subprocess.Popen[bytes]:
        started.append(start_child(*words, **options))
        return started[-1]

    monkeypatch.setattr(kafka, "start_child", record)
    monkeypatch.setattr(kafka, "kafka_command", lambda *_: ["sleep", "60"])
    monkeypatch.setattr(kafka, "_format", lambda _: None)
    server = EmbeddedKafka(tmp_path / "kafka")
    server.pid_file = "no-such-folder/kafka.pid"
    with pytest.raises(FileNotFoundError):
        server.start()
    running = started[0].poll() is None
    started[0].kill()
    assert not running
