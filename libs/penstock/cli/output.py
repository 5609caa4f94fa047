"""How the CLI shows things: tables for people, `--json` for programs, both from the same answer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from pydantic import BaseModel
from rich.console import Console
from rich.table import Table

out = Console()
err = Console(stderr=True)


def show_json(*answers: BaseModel) -> None:
    """Whole answers as JSON, one after the other."""
    for answer in answers:
        print(answer.model_dump_json(indent=2))


def table(headings: Sequence[str], rows: Iterable[Sequence[Any]], *, title: str | None = None) -> None:
    """A table; None is shown as `-`."""
    shown = Table(title=title, title_justify="left")
    for heading in headings:
        shown.add_column(heading, overflow="fold")
    for row in rows:
        shown.add_row(*(cell(value) for value in row))
    out.print(shown)


def cell(value: Any) -> str:
    """A value as text: times by their age, sequences joined."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, datetime):
        return age(value, datetime.now(UTC))
    if isinstance(value, list | tuple):
        return ", ".join(cell(item) for item in value)
    return f"{value:,.1f}" if isinstance(value, float) else str(value)


def age(then: datetime, now: datetime) -> str:
    """`12s ago`, `in 3m`, `4h ago`, `5d ago`."""
    seconds = (now - then).total_seconds()
    size = abs(seconds)
    for length, unit in ((86_400, "d"), (3600, "h"), (60, "m")):
        if size >= length:
            text = f"{size / length:.0f}{unit}"
            break
    else:
        text = f"{size:.0f}s"
    return f"{text} ago" if seconds >= 0 else f"in {text}"
