"""The bar of commands that wait: on a terminal only, and as far as is known."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from penstock.cli import bar, output


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """What a terminal would get."""
    written = io.StringIO()
    console = Console(file=written, force_terminal=True, width=80, color_system=None)
    for module in (bar, output):
        monkeypatch.setattr(module, "out", console)
        monkeypatch.setattr(module, "err", console)
    return written


def test_a_terminal_shows_what_is_waited_for_and_how_much_is_done(terminal: io.StringIO) -> None:
    done = [None, 0.0, 0.5, 1.0]
    with bar.shown("waiting for [etl]", lambda: done[0] if len(done) == 1 else done.pop(0)):
        output.say("a line")
    assert "waiting for [etl]" in terminal.getvalue()
    assert "a line\n" in terminal.getvalue()
    assert "\u2501" * 20 in terminal.getvalue(), "all of it, in the end"


def test_a_pipe_gets_the_lines_only(capsys: pytest.CaptureFixture[str]) -> None:
    with bar.shown("waiting for etl", lambda: 0.5):
        print("a line")
    assert capsys.readouterr() == ("a line\n", "")


def test_a_file_may_be_read_twice(terminal: io.StringIO, tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text("one\ntwo\n")
    with bar.opened(file) as stream:
        assert list(stream) == ["one\n", "two\n"]
        stream.seek(0)
        assert stream.read() == "one\ntwo\n"
    assert "reading rows.jsonl" in terminal.getvalue()
