"""Installs the locked packages with pip and shows how many are done. Usage: packages.py LOCK"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from collections import deque
from pathlib import Path

from penstock.local.progress import Step

_ABOUT_SECONDS = 90
_LINES_OF_AN_ERROR = 30
# Each module is compiled when it is first imported: most never are.
_OPTIONS = ("--disable-pip-version-check", "--progress-bar", "off", "--no-compile", "--no-deps", "--require-hashes")


def install(lock: Path) -> None:
    """Installs what the lock file pins; exits with pip's last lines when it fails."""
    total = sum("==" in line for line in lock.read_text().splitlines())
    last_lines: deque[str] = deque(maxlen=_LINES_OF_AN_ERROR)
    command = [sys.executable, "-m", "pip", "install", *_OPTIONS, "-r", str(lock)]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with (
        Step(f"installing {total} locked packages", about_seconds=_ABOUT_SECONDS) as step,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment) as pip,
    ):
        _follow(pip, step, total, last_lines)
        step.now(f"{_installed()} packages (the lock file also pins those of other systems)")
        if pip.wait():
            raise SystemExit("pip cannot install the locked packages:\n" + "".join(last_lines))


def _follow(pip: subprocess.Popen[str], step: Step, total: int, last_lines: deque[str]) -> None:
    fetched = 0
    for line in pip.stdout or ():
        last_lines.append(line)
        if line.startswith("Collecting "):
            fetched += 1
            step.now(f"fetching package {fetched}/{total}")
        elif line.startswith("Installing collected packages"):
            step.count(lambda: f"installed {_installed()}/{total} packages")


def _installed() -> int:
    """Packages in this environment; pip itself is not counted."""
    found = Path(sysconfig.get_path("purelib")).glob("*.dist-info")
    return sum(not folder.name.startswith("pip-") for folder in found)


if __name__ == "__main__":
    install(Path(sys.argv[1]))
