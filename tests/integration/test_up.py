"""`penstock up` with ports and a folder of its own: real processes, which another command finds, and which end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from penstock.control.process import kill_group, wait_until
from penstock.local.ports import free_port, is_free
from penstock.local.services import kafka_port, standard_ports

_READY_S = 180.0
_END_S = 60.0
_PENSTOCK = (sys.executable, "-m", "penstock.cli.main")


@pytest.mark.long
def test_a_stack_has_the_ports_and_the_folder_that_it_was_told(servers_dir: Path) -> None:
    """1. Started beside whatever else runs: all its ports follow the base, all its files are in the folder. 2. A
    command finds it by the folder. 3. SIGTERM: no process of it is left, its ports are free, its data are there."""
    base, folder = _free_base(), servers_dir / "up"
    ports = [*standard_ports(1, base).values(), kafka_port(base)]
    environment = {**_environment(), "PENSTOCK_DATA_DIR": str(folder)}
    with _up(base, folder) as started:
        wait_until(lambda: "ready: " in _said(folder) or started.poll() is not None, _READY_S, "the stack")
        assert f"ready: http://127.0.0.1:{base} " in _said(folder)
        assert [port for port in ports if is_free(port)] == []
        assert json.loads((folder / "stack.json").read_text())["url"] == f"http://127.0.0.1:{base}"
        listed = subprocess.run(
            [*_PENSTOCK, "containers", "--json"], env=environment, capture_output=True, timeout=_READY_S, check=True
        )
        assert "task_manager_1" in listed.stdout.decode()
        processes = psutil.Process(started.pid).children(recursive=True)
        started.send_signal(signal.SIGTERM)
        assert started.wait(_END_S) == 0
    assert _said(folder).rstrip().endswith("stopped")
    assert psutil.wait_procs(processes, _END_S)[1] == []
    assert [port for port in ports if not is_free(port)] == []
    assert (folder / "postgres").is_dir()


@contextmanager
def _up(base: int, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """In a process group of its own, which is killed if it is still there at the end."""
    command = [*_PENSTOCK, "up", "--port-base", str(base), "--data-dir", str(folder), "--task-managers", "1"]
    with _log(folder).open("wb") as log:
        started = subprocess.Popen(
            command, env=_environment(), stdout=log, stderr=subprocess.STDOUT, start_new_session=True
        )
    try:
        yield started
    finally:
        kill_group(started)


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("PENSTOCK_")}


def _log(folder: Path) -> Path:
    return folder.with_suffix(".said")


def _said(folder: Path) -> str:
    return _log(folder).read_text()


def _free_base() -> int:
    """A base of ports none of which anything listens on."""
    while True:
        base = free_port()
        if all(map(is_free, [*standard_ports(1, base).values(), kafka_port(base)])):
            return base
