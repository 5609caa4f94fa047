"""Runs `penstock` in this process as a shell would: by `main()`, with an exit code and two streams."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from penstock.cli import output
from penstock.cli.main import main
from penstock.control import logs
from penstock.local.ports import free_port


def _leave_logging_alone(service: str, **_: object) -> None:
    """The logging of this process is pytest's."""


@dataclass(frozen=True, slots=True)
class Ended:
    """A command that ended."""

    code: int
    out: str
    err: str

    def ok(self) -> str:
        """What it said; fails when it was not content."""
        assert self.code == 0, self
        return self.out

    def refusal(self) -> str:
        """The one line of a command that failed as users should see it. It or the one below names the next command."""
        assert self.code == 1, self
        told, *hint = self.err.splitlines()
        assert "Traceback" not in self.err
        says_all = "`penstock " in told or "(field query." in told
        assert says_all if not hint else hint[0].startswith("  try: penstock "), self
        assert len(hint) <= 1, self
        return told.strip()


class Shell:
    """`shell("jobs", "list")` runs `penstock jobs list`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._monkeypatch = monkeypatch
        self._capsys = capsys
        monkeypatch.setattr(logs, "configure", _leave_logging_alone)  # it would outlive the test
        monkeypatch.setattr(output.out, "width", 120)  # whatever terminal the tests run in

    def __call__(self, *words: str) -> Ended:
        self._monkeypatch.setattr(sys, "argv", ["penstock", *words])
        with pytest.raises(SystemExit) as ended:
            main()
        said = self._capsys.readouterr()
        return Ended(int(ended.value.code or 0), said.out, said.err)


@contextmanager
def lone(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], data_dir: Path) -> Iterator[Shell]:
    """A shell whose settings name no service that answers. What services in this process log is kept off its output."""
    monkeypatch.setenv("PENSTOCK_DATA_DIR", str(data_dir))
    monkeypatch.setenv("PENSTOCK_URL", f"http://127.0.0.1:{free_port()}")
    monkeypatch.setenv("PENSTOCK_TOKEN", "pst_none")
    with capture_logs():
        yield Shell(monkeypatch, capsys)
