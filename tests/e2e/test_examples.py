"""The examples, as their READMEs show them: every command, and what comes out."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import deltalake
import pytest

from penstock.control.process import wait_until
from tests.support.cli.documents import blocks
from tests.support.cli.terminal import Terminal
from tests.tidy.source import REPOSITORY

EXAMPLES = REPOSITORY / "deploy" / "examples"
RESULT_S = 60.0
Rows = list[dict[str, Any]]


def _lines(said: str) -> Rows:
    return [json.loads(line) for line in said.splitlines()]


def _newest_of_each_user(said: str) -> Rows:
    """Users are in different partitions; the records of one come in their order."""
    return list({row["user"]: row for row in _lines(said)}.values())


def _newest_of_each_shop(said: str) -> Rows:
    return list({row["shop"]: row for row in _lines(said)}.values())


def _balances(said: str) -> Rows:
    columns = ("account", "bookings", "balance_cents")
    rows = [line.split() for line in said.splitlines()]
    return [dict(zip(columns, (name, int(count), int(cents)), strict=True)) for name, count, cents in rows]


def _table(name: str) -> Rows:
    rows: Rows = deltalake.DeltaTable(f".penstock/outputs/{name}").to_pyarrow_table().to_pylist()
    return rows


def _windows(_: str) -> Rows:
    rows = _table("windows")
    return [{**row, "minute": row["minute"].strftime("%Y-%m-%dT%H:%M:%SZ")} for row in rows]


def _ticks(_: str) -> Rows:
    """The table comes with the first batch."""
    return _table("ticks") if deltalake.DeltaTable.is_deltatable(".penstock/outputs/ticks") else []


READ: dict[str, Callable[[str], Rows]] = {
    "filter": _lines,
    "parts": lambda _: _table("parts"),
    "windows": _windows,
    "join": _lines,
    "alarms": _lines,
    "sessions": _lines,
    "trends": _lines,
    "totals": _balances,
    "latest": lambda _: _table("latest"),
    "intake": _lines,
    "regions": _lines,
    "ticks": _ticks,
    "shuffle": _newest_of_each_user,
    "protobuf": _newest_of_each_shop,
    "import": _lines,
}


@pytest.mark.long
@pytest.mark.parametrize("name", READ)
def test_an_example_gives_the_rows_that_it_promises(terminal: Terminal, name: str) -> None:
    begin, end = blocks(EXAMPLES / name / "README.md")
    expected = sorted(_lines((EXAMPLES / name / "expected.jsonl").read_text()), key=str)
    *commands, show = begin
    for line in commands:
        terminal(line)
    wait_until(lambda: sorted(READ[name](terminal(show)), key=str) == expected, RESULT_S, f"the rows of {name}")
    for line in end:
        terminal(line)
