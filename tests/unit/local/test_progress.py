"""Progress of the set-up's long steps, in a pipe and on a terminal."""

from __future__ import annotations

import io
import subprocess
import sys
import threading

import pytest

from penstock.control.process import wait_until
from penstock.local import progress
from penstock.local.progress import Awaited, Step
from tests.support.local.told import Told


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_step_says_what_it_does_how_long_and_how_it_ended() -> None:
    stream = io.StringIO()
    with Step("fetching 58 jars", about_seconds=30, stream=stream) as step:
        step.count(lambda: "58/58 jars")
    first, last = stream.getvalue().splitlines()
    assert first == "fetching 58 jars (about 30 s)"
    assert last == "  done: 58/58 jars, 0 s"


@pytest.mark.parametrize(
    ("stream", "expected"), [(io.StringIO(), "  half, 0 s\n"), (_Terminal(), "\r\x1b[K  half, 0 s")]
)
def test_progress_is_plain_lines_but_on_a_terminal(
    stream: io.StringIO, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "_PLAIN_PERIOD_SECONDS", 0.01)
    monkeypatch.setattr(progress, "_TERMINAL_PERIOD_SECONDS", 0.01)
    with Step("compiling", about_seconds=1, stream=stream) as step:
        step.now("half")
        wait_until(lambda: expected in stream.getvalue(), 5.0, "a line of progress")
    assert stream.getvalue().endswith("done: half, 0 s\n")


def test_a_step_that_fails_says_so() -> None:
    stream = io.StringIO()
    with pytest.raises(ValueError, match="no"), Step("fetching", about_seconds=1, stream=stream):
        raise ValueError("no")
    assert "failed: 0 s" in stream.getvalue()


@pytest.mark.parametrize(("code", "shown"), [(0, False), (3, True)])
def test_a_command_is_quiet_unless_it_fails(code: int, shown: bool) -> None:
    program = f"print('what happened'); raise SystemExit({code})"
    words = [sys.executable, "-m", "penstock.local.progress", "installing", "9", sys.executable, "-c", program]
    ended = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == code
    assert ("what happened" in ended.stderr) is shown
    assert "installing (about 9 s)" in ended.stderr


def test_what_is_awaited_for_long_is_told_again_and_again_until_the_end() -> None:
    told = Told(5.0)
    with Awaited(told, "postgres", period_seconds=0.01) as awaited:
        told.wait_for("waiting for postgres: 0 s so far", times=2)
        awaited.now("kafka (see kafka.log)")
        told.wait_for("waiting for kafka (see kafka.log): 0 s so far")
    heard = len(told.lines)
    assert [thread.name for thread in threading.enumerate() if thread.name == "awaited"] == []
    assert len(told.lines) == heard


def test_what_is_awaited_for_a_moment_is_not_told() -> None:
    told = Told(5.0)
    with Awaited(told, "postgres", period_seconds=60.0) as awaited:
        awaited.now("kafka")
    assert told.lines == []
