"""What a killed Task Manager left behind, and a second one of the same name."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from penstock.control.process import kill_group, start_child, wait_until
from penstock.local.folder import OwnedFolder
from services.task_manager.hosts.orphans import MARK, end_orphans

SLEEPER = [sys.executable, "-c", "import time; time.sleep(600)"]


def test_only_processes_of_this_container_are_ended(tmp_path: Path) -> None:
    mine, other = tmp_path / "mine", tmp_path / "other"
    leftovers = [start_child(SLEEPER, env={**os.environ, MARK: str(folder)}) for folder in (mine, mine, other)]
    try:
        assert end_orphans(mine) == 2
        wait_until(lambda: leftovers[0].poll() is not None and leftovers[1].poll() is not None, 5, "their end")
        assert leftovers[2].poll() is None
        assert end_orphans(mine) == 0
    finally:
        for process in leftovers:
            kill_group(process)


def test_a_second_process_of_the_same_name_refuses_to_start(tmp_path: Path) -> None:
    folder = OwnedFolder(tmp_path / "containers" / "c1")
    folder.claim()
    settings = {"PENSTOCK_DATA_DIR": str(tmp_path), "PENSTOCK_CONTAINER": "c1"}
    command = [sys.executable, "-m", "services.task_manager"]
    ended = subprocess.run(command, env={**os.environ, **settings}, capture_output=True, text=True, timeout=60)
    folder.release()
    assert ended.returncode == 1
    assert "in use by another process" in ended.stderr.splitlines()[-1]
