"""Whoever waits for long is told what is not well."""

from __future__ import annotations

from itertools import count
from typing import Any, cast

import pytest

from penstock.cli.patience import LongStep, await_cluster
from penstock.control.errors import Unavailable
from penstock.wire.job_client import JobClient
from penstock.wire.status import StatusLine, StatusView


class Cell:
    """A Job Service that answers with a status, or not at all."""

    def __init__(self, *parts: StatusLine) -> None:
        self.parts = list(parts)
        self.asked = 0

    def status(self) -> StatusView:
        self.asked += 1
        if not self.parts:
            raise Unavailable("nobody answers")
        return StatusView(ok=False, parts=self.parts)


def part(name: str, *, ok: bool = False) -> StatusLine:
    return StatusLine(part=name, ok=ok, summary="no round for 75 s", advice=None if ok else "do", details={})


def wait(cell: Any, looks: int, patience_seconds: float) -> int:
    """Waits until the condition was asked so often."""
    asked = count(1)
    return await_cluster(cell, lambda: next(asked) >= looks, 60.0, "it", poll_s=0.0, patience_seconds=patience_seconds)


def test_each_part_that_is_not_well_is_told_once(capsys: pytest.CaptureFixture[str]) -> None:
    """Those that are well are not, nor are alerts, which may be about other jobs."""
    cell = Cell(part("loop state_syncer"), part("store", ok=True), part("alerts"))
    assert wait(cell, 5, patience_seconds=0.0)
    assert cell.asked == 4
    assert capsys.readouterr().out == "loop state_syncer: no round for 75 s. See `penstock status`\n"


def test_nothing_is_asked_while_the_wait_is_short(capsys: pytest.CaptureFixture[str]) -> None:
    cell = Cell(part("loop state_syncer"))
    assert wait(cell, 5, patience_seconds=60.0)
    assert (cell.asked, capsys.readouterr().out) == (0, "")


def test_the_wait_goes_on_when_nobody_knows_the_status() -> None:
    assert wait(Cell(), 3, patience_seconds=0.0)


def test_a_step_that_takes_long_is_told_each_time_after_twice_as_long() -> None:
    """A new step begins anew; the wait itself counts from its begin."""
    long_step = LongStep(100.0, 30.0)
    told = [(now, long_step.line("copying", float(now))) for now in range(100, 400)]
    assert [(now - 100, line) for now, line in told if line] == [
        (30, "after 30s: still copying"),
        (60, "after 1m: still copying"),
        (120, "after 2m: still copying"),
        (240, "after 4m: still copying"),
    ]
    assert [long_step.line("committing", now) for now in (400.0, 429.0, 430.0)] == [
        None,
        None,
        "after 30s: still committing",
    ]


def test_whoever_waits_is_told_the_present_step(capsys: pytest.CaptureFixture[str]) -> None:
    asked, steps = count(1), iter(["one", "one", "two", "two"])
    await_cluster(
        cast(JobClient, Cell()),
        lambda: next(asked) >= 5,
        60.0,
        "it: see there",
        poll_s=0.0,
        step=lambda: next(steps),
        long_seconds=0.0,
    )
    told = capsys.readouterr().out
    assert "after 0s: still one" in told
    assert told.splitlines()[-1] == "after 0s: still two"
    asked = count(1)
    await_cluster(
        cast(JobClient, Cell()), lambda: next(asked) >= 2, 60.0, "it: see there", poll_s=0.0, long_seconds=0.0
    )
    assert capsys.readouterr().out == "after 0s: still waiting for it\n"
