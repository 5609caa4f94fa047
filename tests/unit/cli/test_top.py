"""`penstock top`: order, filter, pages, and the keys of a terminal."""

from __future__ import annotations

import os
import pty
import sys
import termios
from typing import Any

import pytest

from penstock.cli.keys import keys
from penstock.cli.top_view import HELP, Order, View, matching, pressed, shown, title
from penstock.wire.jobs import JobSummary
from penstock.wire.overview import Tasks
from tests.support.cli.shell import Shell


def job(name: str, **facts: Any) -> JobSummary:
    usual = {"owner": "me", "state": "synced", "revision": 1, "running_revision": 1, "generation": 1, "restarts": 0}
    return JobSummary.model_validate({"job": name, "converged": True, "health": "healthy", **usual, **facts})


JOBS = [
    job("a", lag_seconds=1.0, backlog_records=5, rows_per_second=9.0),
    job("b", health="lagging", lag_seconds=500.0, backlog_records=1, rows_per_second=1.0),
    job("c", health="crashing"),
    job("d", health="unknown"),
    job("e", health="lagging", lag_seconds=90.0, backlog_records=7, rows_per_second=2.0),
]


@pytest.mark.parametrize(
    ("view", "names"),
    [
        (View(), "cbeda"),
        (View(reverse=True), "adebc"),
        (View(only_unwell=True), "cbed"),
        (View(Order.LAG), "beacd"),
        (View(Order.LAG, reverse=True), "aebcd"),
        (View(Order.BACKLOG), "eabcd"),
        (View(Order.RATE), "aebcd"),
        (View(Order.NAME), "abcde"),
        (View(Order.NAME, reverse=True), "edcba"),
    ],
)
def test_the_gravest_comes_first_and_the_unknown_last(view: View, names: str) -> None:
    assert "".join(each.job for each in matching(JOBS, view)) == names


def test_keys_change_the_view() -> None:
    view = View(page=3)
    for key, order in zip("hlbtn", (Order.HEALTH, Order.LAG, Order.BACKLOG, Order.RATE, Order.NAME), strict=True):
        assert pressed(view, key) == View(order)
        assert f"{key} " in HELP
    assert pressed(view, "r") == View(reverse=True)
    assert pressed(view, "u") == View(only_unwell=True)
    assert pressed(view, " ") == View(page=4)
    assert pressed(view, "?") is view
    assert pressed(view, "q") is None


def test_pages_come_round() -> None:
    matched = matching(JOBS, View(Order.NAME))
    pages = [shown(matched, View(page=number), 2) for number in range(4)]
    assert ["".join(each.job for each in found) for found, _ in pages] == ["ab", "cd", "e", "ab"]
    assert {number for _, number in pages} == {3}
    assert shown([], View(), 2) == ([], 1)
    assert title(JOBS, View(page=4, reverse=True), 3) == "5 jobs, 4 not well; by health, reversed; page 2 of 3"
    assert title(JOBS, View(only_unwell=True), 1) == "5 jobs, 4 not well, only those; by health"


def test_a_key_is_read_without_enter_and_the_terminal_is_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "r") as terminal, os.fdopen(ours, "w"):
        monkeypatch.setattr(sys, "stdin", terminal)
        before = termios.tcgetattr(terminal)
        with keys() as wait:
            os.write(ours, b"l")
            assert wait(5.0) == "l"
            assert wait(0.01) == ""
        assert termios.tcgetattr(terminal) == before


class Service:
    """A Job Service that says which tasks run, and counts how often all jobs are read."""

    def __init__(self) -> None:
        self.reads = 0

    def list_jobs(self, prefix: str | None) -> list[JobSummary]:
        self.reads += 1
        return [each for each in JOBS if each.job.startswith(prefix or "")]

    def tasks(self, job: str) -> Tasks:
        return Tasks(job=job, tasks=[])


@pytest.mark.parametrize(("options", "tables"), [((), 1), (("--updates", "3", "--every", "0.1"), 3)])
def test_without_a_terminal_the_table_is_printed_and_the_command_ends(
    options: tuple[str, ...], tables: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    service = Service()
    monkeypatch.setattr("penstock.cli.top.client", lambda: service)
    said = Shell(monkeypatch, capsys)("top", "--unhealthy", *options).ok()
    assert service.reads == tables
    assert said.count("5 jobs, 4 not well, only those; by health") == tables
    assert [said.count(f"│ {name} ") for name in "bcde"] == [tables] * 4
    (crashing, *_) = (line for line in said.splitlines() if "│ c " in line)
    assert crashing.count("unknown") == 3, "backlog, lag and rows/s"
