"""What every small form of a bench must give."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping


def unmeasured(figures: Mapping[str, float | None], may_be_zero: Collection[str] = ()) -> set[str]:
    """The figures that are missing, no finite number, or zero or less though they count something."""
    return {
        name
        for name, value in figures.items()
        if value is None or not math.isfinite(value) or (value <= 0 and name not in may_be_zero)
    }


def require_figures(figures: Mapping[str, float | None], may_be_zero: Collection[str] = ()) -> None:
    """Raises AssertionError when a figure is unmeasured, or when there are none."""
    assert figures
    assert not unmeasured(figures, may_be_zero)
