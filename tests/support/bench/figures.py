"""What every small form of a bench must give."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping


def require_figures(figures: Mapping[str, float | None], may_be_zero: Collection[str] = ()) -> None:
    """Raises AssertionError when a figure is missing, not a finite number, or nothing although it counts something."""
    bad = {name: value for name, value in figures.items() if value is None or not math.isfinite(value)}
    assert not bad
    assert figures
    empty = [name for name, value in figures.items() if value <= 0 and name not in may_be_zero]  # type: ignore[operator]
    assert not empty, f"nothing was measured: {empty}"
