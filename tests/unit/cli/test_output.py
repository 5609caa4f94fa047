"""How values are shown, and errors."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError
from rich.console import Console

from penstock.cli import errors, output
from penstock.cli.output import Whole, age, cell, changes, counted, end, figure, moment, rich_table, span
from penstock.config.problems import Problem, refusal
from penstock.control.errors import InvalidConfig, PenstockError, TerminalError, Unavailable

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s ago"),
        (59.9, "59s ago"),
        (60, "1m ago"),
        (90, "1m30s ago"),
        (11 * 60 + 30, "11m ago"),
        (7199, "1h59m ago"),
        (23.9 * 3600, "23h ago"),
        (86_400 + 59 * 60, "1d ago"),
        (40 * 86_400, "40d ago"),
        (-30, "in 30s"),
        (-1800, "in 30m"),
    ],
)
def test_a_time_is_shown_by_its_age(seconds: float, text: str) -> None:
    assert age(NOW - timedelta(seconds=seconds), NOW) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (16, "23:59:44 UTC, 16s ago"),
        (-240, "00:04:00 UTC, in 4m"),
        (86_400, "2025-12-31 00:00:00 UTC, 1d ago"),
    ],
)
def test_a_moment_has_the_clock_time_of_the_logs(seconds: float, text: str) -> None:
    assert moment(NOW - timedelta(seconds=seconds), NOW) == text


def test_an_end_is_told_by_what_is_left_and_by_the_clock() -> None:
    assert end(NOW + timedelta(seconds=200), NOW) == "in 3m20s, at 00:03:20 UTC"


def test_a_count_agrees_with_its_noun() -> None:
    assert [counted(number, "task") for number in (0, 1, 1024)] == ["0 tasks", "1 task", "1,024 tasks"]


def test_a_span_is_never_more_than_it_is() -> None:
    assert [span(seconds) for seconds in (0.9, 3599.9, 86_399)] == ["0s", "59m", "23h"]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"),
        (True, "yes"),
        (False, "no"),
        (0, "0"),
        (1234, "1234"),
        (1234.56, "1,234.6"),
        (0.01, "0.01"),
        (0.0, "0.0"),
        (["a", None], "a, -"),
        ((), ""),
        ({"a": {"b": None}}, '{"a":{"b":null}}'),
        ("", ""),
        ("x" * 200, "x" * 157 + "..."),
        (Whole("x" * 200), "x" * 200),
        ("line\n" * 10, "\n".join(["line"] * 10)),
        ("line\n" * 11, "\n".join(["line"] * 9 + ["..."])),
    ],
)
def test_a_cell_is_text(value: Any, text: str) -> None:
    assert cell(value) == text


def test_an_unknown_figure_is_not_zero() -> None:
    assert [figure(value) for value in (None, 0, 1234567.8)] == ["unknown", "0", "1,234,568"]


def test_no_text_of_a_job_commands_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    text = "\x1b]0;pwned\x07 read as \x1b[2Jall\u009b ok"
    output.say(text)
    output.note(text)
    output.table(["why"], [[text], [output.Whole(text)]])
    shown = "".join(capsys.readouterr())
    assert not set("\x1b\x07\u009b") & set(shown)
    assert shown.count("read as") == 4


def test_what_looks_like_markup_is_shown_as_it_is() -> None:
    console = Console(width=60)
    with console.capture() as capture:
        console.print(rich_table(("field", "value"), [("reason", "[red]now[/] [b")]))
    assert "[red]now[/] [b" in capture.get()


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (None, None, []),
        ({"a": 1}, {"a": 1}, []),
        (None, {"a": 1}, ["a: unset -> 1"]),
        ({"a": 1, "b": {"c": 2, "d": 3}}, {"b": {"c": 4, "d": 3}}, ["a: 1 -> unset", "b.c: 2 -> 4"]),
        ({"a": {"b": 1}}, {"a": 2}, ['a: {"b":1} -> 2']),
        ({"a": [1]}, None, ["a: 1 -> unset"]),
    ],
)
def test_changes_are_told_leaf_by_leaf(old: Any, new: Any, expected: list[str]) -> None:
    assert list(changes(old, new)) == expected


def _not_valid() -> ValidationError:
    with pytest.raises(ValidationError) as refused:
        TypeAdapter(dict[str, int]).validate_python({"count": "many"})
    return refused.value


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (InvalidConfig("too\nmany", field="task_count", rule="maximum"), "too many (field task_count, rule maximum)"),
        (InvalidConfig("no such", rule="known"), "no such (rule known)"),
        (Unavailable("down"), "down"),
        (TerminalError("ended:\nthe log"), "ended:\nthe log"),
        (TimeoutError("waited in vain"), "waited in vain"),
    ],
)
def test_an_error_is_told_in_one_line(error: PenstockError | OSError, line: str) -> None:
    assert errors.line(error) == line


def test_every_problem_of_a_configuration_is_told():
    refused = refusal([Problem("query", "missing", "query: Field required"), Problem("a.b", "low", "a.b is too low")])
    assert errors.further(refused) == ["  and a.b is too low (field a.b)"]
    assert errors.further(Unavailable("down")) == []


def test_a_value_that_the_wire_model_refuses_is_told_with_its_field() -> None:
    assert "(field count, rule int_parsing)" in errors.line(_not_valid())
