"""A terminal in a checkout beside a running stack, into which the lines of a README are pasted."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from penstock.local.stack import LocalStack
from tests.support.cli.shell import Shell
from tests.tidy.source import REPOSITORY

_OPERATORS = {"|", ">", "&&"}


class Terminal:
    """Its folder has the checkout's `deploy` and the stack's `.penstock`. `penstock` runs in this process."""

    def __init__(self, stack: LocalStack, folder: Path, shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
        self._shell = shell
        (folder / ".penstock").symlink_to(stack.data_dir)
        (folder / "deploy").symlink_to(REPOSITORY / "deploy")
        monkeypatch.chdir(folder)
        monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
        monkeypatch.setenv("PYTHONPATH", f"{REPOSITORY / 'libs'}:{REPOSITORY}")
        for name in ("URL", "TOKEN", "DATA_DIR", "KAFKA_BOOTSTRAP"):
            monkeypatch.delenv(f"PENSTOCK_{name}", raising=False)

    def __call__(self, line: str) -> str:
        """What a line prints. Raises AssertionError or CalledProcessError when it fails."""
        words = shlex.split(line)
        if words[0] == "penstock" and not _OPERATORS & set(words):
            with capture_logs():
                return self._shell(*words[1:]).ok()
        return subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=True).stdout

    def failing(self, line: str) -> str:
        """What a line of `penstock` prints that fails. Raises AssertionError when it does not."""
        with capture_logs():
            ended = self._shell(*shlex.split(line)[1:])
        assert ended.code != 0, ended
        return ended.out + ended.err
