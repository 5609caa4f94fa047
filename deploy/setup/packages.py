"""Installs the locked packages with pip and shows how many are done. Usage: packages.py LOCK"""

from __future__ import annotations

import re
import subprocess
import sys
import sysconfig
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from penstock.local.progress import Step

_ABOUT_SECONDS = 60
_LARGEST = "pyspark=="
_LINES_OF_AN_ERROR = 30
# Each module is compiled when it is first imported: most never are.
_OPTIONS = ("--disable-pip-version-check", "--progress-bar", "off", "--no-compile", "--no-deps", "--require-hashes")


def install(lock: Path) -> None:
    """Installs what the lock file pins; exits with pip's last lines when it fails.

    Two pips work side by side, since the lock needs no resolution: one builds pyspark, which takes half of the time.
    """
    pins = _pins(lock.read_text())
    with (
        tempfile.TemporaryDirectory() as folder,
        Step(f"installing {len(pins)} locked packages", about_seconds=_ABOUT_SECONDS) as step,
        ThreadPoolExecutor() as threads,
    ):
        step.count(lambda: f"installed {_installed()}/{len(pins)} packages")
        parts = [[pin for pin in pins if pin.startswith(_LARGEST) is is_largest] for is_largest in (True, False)]
        files = [Path(folder) / f"{number}.lock" for number in range(len(parts))]
        for file, part in zip(files, parts, strict=True):
            file.write_text("".join(part))
        failures = [failure for failure in threads.map(_pip, files) if failure]
        step.now(f"{_installed()} packages (the lock file also pins those of other systems)")
        if failures:
            raise SystemExit("pip cannot install the locked packages:\n" + "\n".join(failures))


def _pins(lock: str) -> list[str]:
    """A pin with its hashes each; comments and continued lines belong to the pin above them."""
    return [pin for pin in re.split(r"^(?=[a-z0-9])", lock, flags=re.MULTILINE | re.IGNORECASE) if "==" in pin]


def _pip(requirements: Path) -> str:
    """Pip's last lines when it fails, else nothing."""
    command = [sys.executable, "-m", "pip", "install", *_OPTIONS, "-r", str(requirements)]
    pip = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    return "\n".join(pip.stdout.splitlines()[-_LINES_OF_AN_ERROR:]) if pip.returncode else ""


def _installed() -> int:
    """Packages in this environment; pip itself is not counted."""
    found = Path(sysconfig.get_path("purelib")).glob("*.dist-info")
    return sum(not folder.name.startswith("pip-") for folder in found)


if __name__ == "__main__":
    install(Path(sys.argv[1]))
