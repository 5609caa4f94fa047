"""How the CLI shows things: tables for people, `--json` for programs, both from the same answer."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib import import_module
from itertools import pairwise
from typing import Any

import orjson
from pydantic import BaseModel
from rich.console import Console
from rich.table import Table
from rich.text import Text

from penstock.cli.tables import drawn
from penstock.control.texts import shown

_COLUMNS_OF_NO_TERMINAL = 120
_LONGEST_LINE = 160
_MOST_LINES = 10
_WIDE_COLUMNS = 10_000
_HALF_A_DAY = 43_200
_UNITS = ((86_400, "d"), (3600, "h"), (60, "m"), (1, "s"))


def _console() -> Console:
    """As wide as the terminal, whatever its size becomes; in a pipe as COLUMNS says, or wide enough for all tables."""
    if sys.stdout.isatty():
        return Console()
    return Console(width=shutil.get_terminal_size((_COLUMNS_OF_NO_TERMINAL, 25)).columns)


out = _console()
err = Console(stderr=True)


class _Form:
    """How this command shows things."""

    wide = False
    yaml = False


@contextmanager
def in_form(*, wide: bool, yaml: bool) -> Iterator[None]:
    """While the body runs: tables are `wide`, with nothing cut short; documents are YAML instead of JSON."""
    _Form.wide, _Form.yaml = wide, yaml
    try:
        yield
    finally:
        _Form.wide = _Form.yaml = False


def is_wide() -> bool:
    """Whether this command cuts nothing short."""
    return _Form.wide


class Whole(str):
    """A text of which a cell shows all."""

    __slots__ = ()


def say(text: str, style: str = "") -> None:
    """A line for people; nothing in it is markup, and it is never broken."""
    out.print(Text(shown(text), style=style), soft_wrap=True)


def note(text: str) -> None:
    """A line for people on the error stream, beside output that a program reads."""
    err.print(Text(shown(text)), soft_wrap=True)


def show_json(answer: BaseModel) -> None:
    """A whole answer as one JSON document, or as YAML where the user asks for it."""
    if _Form.yaml:
        print_yaml(answer.model_dump(mode="json"))
    else:
        print(answer.model_dump_json(indent=2))


def show_data(data: Any) -> None:
    """As `show_json`, for what is no model."""
    if _Form.yaml:
        print_yaml(data)
    else:
        print(orjson.dumps(data, option=orjson.OPT_INDENT_2, default=str).decode())


def print_yaml(data: Any) -> None:
    """A YAML document. Its library is imported only here."""
    print(import_module("yaml").safe_dump(data, sort_keys=False, allow_unicode=True), end="")


def table(headings: Sequence[str], rows: Iterable[Sequence[Any]], *, title: str | None = None) -> None:
    """A table; None is shown as `-`, and no rows as the line `none`."""
    found = [[cell(value) for value in row] for row in rows]
    if title is not None:
        say(title, style="bold")
    quick = drawn(headings, found, _WIDE_COLUMNS if _Form.wide else out.width) if found else None
    if quick is not None:
        out.print(quick, soft_wrap=True)
    elif found and _Form.wide:
        Console(width=_WIDE_COLUMNS, file=out.file).print(rich_table(headings, found), soft_wrap=True)
    elif found:
        out.print(rich_table(headings, found))
    else:
        say("none")


def rich_table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    """A table of texts, which are shown as they are; the first column, which names the row, stays whole."""
    shown = Table()
    for number, heading in enumerate(headings):
        shown.add_column(heading, overflow="fold", no_wrap=number == 0)
    for row in rows:
        shown.add_row(*(Text(value) for value in row))
    return shown


def cell(value: Any) -> str:
    """A value as text: times by their age, lists joined, maps as JSON; long ones that are not `Whole` are cut short."""
    return Whole(shown(value)) if isinstance(value, Whole) else _short(shown(_cell(value)))


def _cell(value: Any) -> str:
    match value:
        case None:
            return "-"
        case bool():
            return "yes" if value else "no"
        case datetime():
            return age(value, datetime.now(UTC))
        case list() | tuple():
            return ", ".join(_cell(item) for item in value)
        case Mapping():
            return orjson.dumps(value).decode()
        case float():
            # A small setting, such as 0.01, is not zero.
            return f"{value:,.1f}" if not value or abs(value) >= 1 else f"{value:.3g}"
    return str(value)


def _short(text: str) -> str:
    if _Form.wide:
        return text
    lines = [line if len(line) <= _LONGEST_LINE else f"{line[: _LONGEST_LINE - 3]}..." for line in text.splitlines()]
    return "\n".join(lines if len(lines) <= _MOST_LINES else [*lines[: _MOST_LINES - 1], "..."])


def figure(value: float | None) -> str:
    """A measured number; one that nobody knows is `unknown`, never zero."""
    return "unknown" if value is None else f"{value:,.0f}"


def measured(value: float | None) -> str:
    """As `figure`, with the digits that small values need."""
    return "unknown" if value is None else cell(value)


def age(then: datetime, now: datetime) -> str:
    """`12s ago`, `in 3m20s`, `4h ago`, `15d ago`: never more than it is."""
    seconds = (now - then).total_seconds()
    text = span(abs(seconds))
    return f"{text} ago" if seconds >= 0 else f"in {text}"


def clock(at: datetime, now: datetime) -> str:
    """`04:44:20 UTC`; with its date when it is further away than half a day."""
    date = "" if abs((now - at).total_seconds()) < _HALF_A_DAY else "%Y-%m-%d "
    return f"{at.astimezone(UTC):{date}%H:%M:%S} UTC"


def moment(at: datetime | None, now: datetime | None = None) -> str | None:
    """The clock time, to compare with logs, and the age: `04:44:20 UTC, 16s ago`; None is never."""
    if at is None:
        return None
    known = now or datetime.now(UTC)
    return f"{clock(at, known)}, {age(at, known)}"


def end(at: datetime, now: datetime | None = None) -> str:
    """When something ends: `in 3m20s, at 04:44:20 UTC`."""
    known = now or datetime.now(UTC)
    return f"{age(at, known)}, at {clock(at, known)}"


def counted(number: int, what: str) -> str:
    """`1 task`, `1,024 tasks`."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def span(seconds: float) -> str:
    """A time in its greatest unit, and the next while that is a single digit: `0s`, `1m30s`, `59m`, `2d3h`."""
    whole = int(seconds)
    for (length, unit), (smaller, name) in pairwise(_UNITS):
        if whole >= length:
            count, rest = divmod(whole, length)
            more = f"{rest // smaller}{name}" if count < 10 and rest >= smaller else ""
            return f"{count}{unit}{more}"
    return f"{whole}s"


def changes(old: Any, new: Any, path: str = "") -> Iterator[str]:
    """What differs between two contents of a layer, a leaf each: `task_count: 2 -> 4`. None is absent: `unset`."""
    before, after = (_map(side) for side in (old, new))
    if before is None or after is None:
        yield f"{path}: {leaf(old)} -> {leaf(new)}"
        return
    for key in sorted({*before, *after}):
        if before.get(key) != after.get(key):
            yield from changes(before.get(key), after.get(key), f"{path}.{key}" if path else key)


def leaf(value: Any) -> str:
    """A value of a field, where nothing would be read as a gap."""
    return "unset" if value is None else cell(value) or ("[]" if isinstance(value, list | tuple) else '""')


def _map(side: Any) -> Mapping[str, Any] | None:
    if side is None:
        return {}
    return side if isinstance(side, Mapping) else None
