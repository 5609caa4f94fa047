"""The start of an embedded server that fails half-way."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from penstock.control.process import start_child
from penstock.local import kafka
from penstock.local.kafka import EmbeddedKafka


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
