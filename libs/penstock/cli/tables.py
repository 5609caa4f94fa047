"""Tables that fit their width, drawn at once: rich takes a millisecond for each row, and looks the same. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.cells import cell_len
from rich.text import Text

_BORDERS = 1
_PADDING = 2


def drawn(headings: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> Text | None:
    """The table, as rich draws it; None when it is wider than `width`, or a cell has several lines or tabs."""
    lines = [tuple(headings), *(tuple(row) for row in rows)]
    if any(not cell.isprintable() for line in lines for cell in line):
        return None
    widths = [max(map(cell_len, column)) for column in zip(*lines, strict=True)]
    if sum(widths) + len(widths) * (_PADDING + _BORDERS) + _BORDERS > width:
        return None
    table = Text(f"{_rule(widths, '┏', '━', '┳', '┓')}\n┃ ")
    for number, heading in enumerate(headings):
        table.append(" ┃ " if number else "").append(_padded(heading, widths[number]), style="bold")
    body = "\n".join(f"│ {' │ '.join(map(_padded, row, widths))} │" for row in rows)
    return table.append(f" ┃\n{_rule(widths, '┡', '━', '╇', '┩')}\n{body}\n{_rule(widths, '└', '─', '┴', '┘')}")


def _padded(cell: str, width: int) -> str:
    return cell + " " * (width - cell_len(cell))


def _rule(widths: Iterable[int], left: str, line: str, between: str, right: str) -> str:
    return f"{left}{between.join(line * (width + _PADDING) for width in widths)}{right}"
