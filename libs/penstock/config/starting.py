"""Where a task without a checkpoint starts to read an input: `earliest`, `latest`, a moment, or offsets. Pure."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

_MOMENT = r"\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d{1,3})?)?(Z|[+-]\d\d:\d\d)"
_OFFSET = r"\d{1,5}:\d{1,18}"
POSITION = rf"^(earliest|latest|{_MOMENT})$"
"""The texts of a position. A moment has its offset from UTC, so that it is the same one on every machine."""
INPUT_POSITION = rf"^(earliest|latest|{_MOMENT}|{_OFFSET}(,{_OFFSET})*)$"
"""Those of a position in a topic, which may also be an offset of each key group."""
LONGEST_POSITION = 250_000
"""Characters: those of 10,000 key groups."""
_OFFSETS = re.compile(rf"{_OFFSET}(,{_OFFSET})*")
_EPOCH = datetime.fromisoformat("1970-01-01T00:00:00Z")


def starting_millis(position: str) -> int | None:
    """The moment of a position, in milliseconds since 1970; None for all but moments.

    Raises ValueError when there is no such moment, such as February 30, or it was before 1970.
    """
    if position in ("earliest", "latest") or starting_offsets(position) is not None:
        return None
    millis = (datetime.fromisoformat(position) - _EPOCH) // timedelta(milliseconds=1)
    if millis < 0:
        raise ValueError("it is before 1970")
    return millis


def starting_offsets(position: str) -> dict[int, int] | None:
    """The first offset to read, by key group; None for all but offsets, such as `0:120,1:95`. The last one counts where
    a key group has several."""
    if _OFFSETS.fullmatch(position) is None:
        return None
    pairs = (each.split(":") for each in position.split(","))
    return {int(group): int(offset) for group, offset in pairs}
