"""The systemd units by systemd's own checks, which need no running systemd."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.deploy.units import FOLDER, OPTIONS, unit_of

pytestmark = pytest.mark.long
_MOST_EXPOSED = 20
"""Tenths of the points of `systemd-analyze security`, where 100 is a unit without any protection."""


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """The units in a folder of units with all drop-ins, and with a Python that is there."""
    folder = tmp_path / "units"
    shutil.copytree(FOLDER, folder, ignore=shutil.ignore_patterns("environment", "options"))
    for service, options in OPTIONS.items():
        drop_ins = folder / f"{unit_of(service).name}.d"
        drop_ins.mkdir()
        for option in options:
            shutil.copy(FOLDER / "options" / f"{option}.conf", drop_ins)
    for unit in folder.glob("*.service"):
        unit.write_text(unit.read_text().replace("/opt/penstock/.venv/bin/python", sys.executable))
    return folder


def _analyze(folder: Path, *words: str | Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "SYSTEMD_UNIT_PATH": f"{folder}:"}
    command = ["systemd-analyze", "--no-pager", *words]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_systemd_understands_every_word(installed: Path) -> None:
    said = _analyze(installed, "verify", *sorted(installed.glob("*.service")))
    assert (said.returncode, said.stderr) == (0, "")


def test_no_unit_is_exposed(installed: Path) -> None:
    for unit in sorted(installed.glob("*.service")):
        said = _analyze(installed, "security", "--offline=true", f"--threshold={_MOST_EXPOSED}", unit)
        assert said.returncode == 0, said.stdout[-500:]
