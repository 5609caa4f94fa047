"""Installs the locked packages and shows how far that is. Usage: packages.py LOCK

pip installs uv, as the lock file pins it, and uv the rest: it needs a fifth of pip's time. uv is told the indexes and
the certificates that pip is configured with. Where uv fails all the same, pip installs everything.

PySpark is published as source only: a wheel is made of its 450 MB before it is installed. The wheel is not compressed,
since it is unpacked at once: this halves its time.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import sysconfig
import tempfile
from collections import deque
from collections.abc import Iterator
from pathlib import Path

from penstock.local.progress import Step

_ABOUT_SECONDS = 30
_LINES_OF_AN_ERROR = 30
_UV = "uv=="
# Each module is compiled when it is first imported: most never are.
_PIP = ("--disable-pip-version-check", "--progress-bar", "off", "--no-compile", "--no-deps", "--require-hashes")
_UV_ALWAYS = ("--no-cache", "--no-progress", "--no-deps", "--require-hashes", "--system-certs")
_OPTIONS_OF_UV = {
    "cert": "--cert",
    "index-url": "--default-index",
    "extra-index-url": "--index",
    "find-links": "--find-links",
}
"""Options of pip that may be configured, and what uv calls them."""
# Read by setuptools, which makes the wheel.
_WHEELS = "[bdist_wheel]\ncompression = stored\n"


def install(lock: Path) -> None:
    """Installs what the lock file pins; exits with pip's last lines when it fails."""
    pinned = _pinned(lock.read_text())
    title = f"installing {len(pinned)} locked packages"
    with (
        Step(title, about_seconds=_ABOUT_SECONDS) as step,
        tempfile.TemporaryDirectory(prefix="penstock-setup-") as name,
    ):
        folder = Path(name)
        (folder / "setuptools.cfg").write_text(_WHEELS)
        step.count(lambda: f"installed {_installed()}/{len(pinned)} packages")
        failure = _pip([each for each in pinned if each.startswith(_UV)], folder) or _uv(lock, folder)
        if failure:
            print(f"uv cannot install them, so pip does (about 60 s):\n{failure}", file=sys.stderr)
            failure = _pip(pinned, folder)
        if failure:
            raise SystemExit(f"pip cannot install the locked packages:\n{failure}")
        step.now(f"{_installed()} packages (the lock file also pins those of other systems)")


def _pinned(lock: str) -> list[str]:
    """Each requirement of the lock file, with its hashes and comments on the lines that follow it."""
    return [block for block in re.split(r"^(?=\S)", lock, flags=re.MULTILINE) if "==" in block.split("\n", 1)[0]]


def _pip(requirements: list[str], folder: Path) -> str:
    file = folder / "requirements.txt"
    file.write_text("".join(requirements))
    return _run([sys.executable, "-m", "pip", "install", *_PIP, "-r", str(file)], folder)


def _uv(lock: Path, folder: Path) -> str:
    uv = [str(Path(sysconfig.get_path("scripts")) / "uv"), "pip", "install", "--python", sys.executable]
    return _run([*uv, *_UV_ALWAYS, *_options_of_pip(_configured()), "-r", str(lock)], folder)


def _configured() -> str:
    command = [sys.executable, "-m", "pip", "config", "list"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


def _options_of_pip(configured: str) -> Iterator[str]:
    """Those of uv for what `pip config list` prints, such as `global.index-url='...'`. The environment's come first:
    it wins over files."""
    found: dict[str, str] = {}
    for line in configured.splitlines():
        name, _, value = line.partition("=")
        found.setdefault(name.rpartition(".")[2], "".join(shlex.split(value)))
    for name, option in _OPTIONS_OF_UV.items():
        for each in found.get(name, "").replace(r"\n", " ").split():
            yield from (option, each)
    if found.get("no-index", "").lower() in ("1", "true", "yes", "on"):
        yield "--no-index"


def _run(command: list[str], folder: Path) -> str:
    """Runs it; returns the last lines of its output when it fails, else an empty text."""
    environment = {**os.environ, "DIST_EXTRA_CONFIG": str(folder / "setuptools.cfg")}
    try:
        ended = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment, check=False
        )
    except OSError as error:
        return str(error)
    return "\n".join(deque(ended.stdout.splitlines(), _LINES_OF_AN_ERROR)) if ended.returncode else ""


def _installed() -> int:
    """Packages in this environment; pip itself is not counted."""
    found = Path(sysconfig.get_path("purelib")).glob("*.dist-info")
    return sum(not folder.name.startswith("pip-") for folder in found)


if __name__ == "__main__":
    install(Path(sys.argv[1]))
