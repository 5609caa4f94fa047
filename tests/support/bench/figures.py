"""What every small form of a bench must give."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping


def unmeasured(figures: Mapping[str, float | None], may_be_zero: Collection[str] = ()) -> set[str]:
    """The figures that are missing, no finite number, or zero or less though they count something."""
    if not figures:
        return {"all of them"}
    return {
        name
        for name, value in figures.items()
        if value is None or not math.isfinite(value) or (value <= 0 and name not in may_be_zero)
    }
