"""Installs the locked packages with pip and shows how many are done. Usage: packages.py LOCK

PySpark is published as source only: pip makes a wheel of its 450 MB before it installs it. A pip of its own does so
while two others fetch the rest. The wheel is not compressed, since it is unpacked at once: this halves its time.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
import tempfile
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from penstock.local.progress import Step

_ABOUT_SECONDS = 60
_LINES_OF_AN_ERROR = 30
# Each module is compiled when it is first imported: most never are.
_OPTIONS = ("--disable-pip-version-check", "--progress-bar", "off", "--no-compile", "--no-deps", "--require-hashes")
_ALONE = "pyspark=="
# Read by setuptools, which makes the wheel.
_WHEELS = "[bdist_wheel]\ncompression = stored\n"


def install(lock: Path) -> None:
    """Installs what the lock file pins; exits with pip's last lines when it fails."""
    pinned = _pinned(lock.read_text())
    others = [each for each in pinned if not each.startswith(_ALONE)]
    parts = [[each for each in pinned if each not in others], others[::2], others[1::2]]
    with (
        Step(f"installing {len(pinned)} locked packages", about_seconds=_ABOUT_SECONDS) as step,
        tempfile.TemporaryDirectory(prefix="penstock-setup-") as folder,
        ThreadPoolExecutor(len(parts)) as pool,
    ):
        step.count(lambda: f"installed {_installed()}/{len(pinned)} packages")
        runs = [pool.submit(_pip, part, Path(folder, str(number))) for number, part in enumerate(parts)]
        failures = [failure for run in runs if (failure := run.result())]
        if failures:
            raise SystemExit("pip cannot install the locked packages:\n" + "\n".join(failures))
        step.now(f"{_installed()} packages (the lock file also pins those of other systems)")


def _pinned(lock: str) -> list[str]:
    """Each requirement of the lock file, with its hashes and comments on the lines that follow it."""
    return [block for block in re.split(r"^(?=\S)", lock, flags=re.MULTILINE) if "==" in block.split("\n", 1)[0]]


def _pip(requirements: list[str], folder: Path) -> str:
    """Installs them; returns the last lines of a pip that fails, else an empty text."""
    folder.mkdir()
    (folder / "requirements.txt").write_text("".join(requirements))
    (folder / "setuptools.cfg").write_text(_WHEELS)
    command = [sys.executable, "-m", "pip", "install", *_OPTIONS, "-r", str(folder / "requirements.txt")]
    environment = {**os.environ, "DIST_EXTRA_CONFIG": str(folder / "setuptools.cfg")}
    ended = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment, check=False
    )
    return "\n".join(deque(ended.stdout.splitlines(), _LINES_OF_AN_ERROR)) if ended.returncode else ""


def _installed() -> int:
    """Packages in this environment; pip itself is not counted."""
    found = Path(sysconfig.get_path("purelib")).glob("*.dist-info")
    return sum(not folder.name.startswith("pip-") for folder in found)


if __name__ == "__main__":
    install(Path(sys.argv[1]))
