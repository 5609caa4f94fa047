"""The bar of commands that wait: on a terminal only, and as far as is known."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from penstock.cli import bar, output


def test_a_terminal_shows_what_is_waited_for_and_how_much_is_done(drawn: io.StringIO) -> None:
    done = [None, 0.0, 0.5, 1.0]
    with bar.shown("waiting for [etl]", lambda: done[0] if len(done) == 1 else done.pop(0)):
        output.say("a line")
    assert "waiting for [etl]" in drawn.getvalue()
    assert "a line\n" in drawn.getvalue()
    assert "\u2501" * 20 in drawn.getvalue(), "all of it, in the end"


def test_a_terminal_shows_how_many_of_all_are_done(drawn: io.StringIO) -> None:
    with bar.counting("writing jobs", ["a", "b"]) as each:
        assert list(each) == ["a", "b"]
    assert "writing jobs: 2 of 2" in drawn.getvalue()
    with bar.counting("writing jobs", []) as nothing:
        assert list(nothing) == []


def test_a_pipe_gets_the_lines_only(capsys: pytest.CaptureFixture[str]) -> None:
    with bar.shown("waiting for etl", lambda: 0.5):
        print("a line")
    assert capsys.readouterr() == ("a line\n", "")


def test_a_file_may_be_read_twice(drawn: io.StringIO, tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text("one\ntwo\n")
    with bar.opened(file) as stream:
        assert list(stream) == ["one\n", "two\n"]
        stream.seek(0)
        assert stream.read() == "one\ntwo\n"
    assert "reading rows.jsonl" in drawn.getvalue()
