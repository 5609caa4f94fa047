"""Where a task without a checkpoint starts to read an input: `earliest`, `latest`, or a moment. Pure."""

from __future__ import annotations

from datetime import datetime, timedelta

POSITION = r"^(earliest|latest|\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d{1,3})?)?(Z|[+-]\d\d:\d\d))$"
"""The texts of a position. A moment has its offset from UTC, so that it is the same one on every machine."""
_EPOCH = datetime.fromisoformat("1970-01-01T00:00:00Z")


def starting_millis(position: str) -> int | None:
    """The moment of a position, in milliseconds since 1970; None for `earliest` and `latest`.

    Raises ValueError when there is no such moment, such as February 30, or it was before 1970.
    """
    if position in ("earliest", "latest"):
        return None
    millis = (datetime.fromisoformat(position) - _EPOCH) // timedelta(milliseconds=1)
    if millis < 0:
        raise ValueError("it is before 1970")
    return millis
