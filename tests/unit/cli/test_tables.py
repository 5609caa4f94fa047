"""A table that fits is drawn as rich draws it; one that does not is left to rich."""

from __future__ import annotations

import io
from collections.abc import Sequence

import pytest
from rich.console import Console, RenderableType

from penstock.cli.output import rich_table
from penstock.cli.tables import drawn

TABLES = [
    (("job", "health"), [("etl", "healthy"), ("a-longer-name", "-")]),
    (("a much wider heading", "n"), [("x", "1")]),
    (("one",), [("",), ("日本語",), ("[bold]no markup[/]",)]),
]


def _printed(shown: RenderableType, *, terminal: bool) -> str:
    file = io.StringIO()
    colors = "standard" if terminal else None
    console = Console(file=file, width=100, force_terminal=terminal, color_system=colors)
    console.print(shown, soft_wrap=True)
    return "\n".join(line.rstrip() for line in file.getvalue().splitlines())


@pytest.mark.parametrize(("headings", "rows"), TABLES)
def test_it_looks_as_rich_draws_it(headings: Sequence[str], rows: list[tuple[str, ...]]) -> None:
    quick = drawn(headings, rows, 100)
    assert quick is not None
    assert _printed(quick, terminal=False) == _printed(rich_table(headings, rows), terminal=False)
    assert "\x1b[1m" in _printed(quick, terminal=True)


def test_what_does_not_fit_is_left_to_rich() -> None:
    assert drawn(("a", "b"), [("x" * 10, "y" * 10)], 27) is not None
    assert drawn(("a", "b"), [("x" * 10, "y" * 10)], 26) is None
    assert drawn(("a",), [("two\nlines",)], 100) is None
    assert drawn(("a",), [("a\tb",)], 100) is None
