"""What differs between two contents of a layer. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import unified_diff
from typing import Any

from services.console.views.words import is_long

_LONGEST_COMPARED = 64 * 1024
_MOST_COMPARED = 1_000
"""To compare texts takes time that grows faster than their lines."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A leaf that changed; None is absent. `lines`: of a long text, those that were removed (`-`), added (`+`) and
    kept."""

    field: str
    old: Any
    new: Any
    lines: tuple[str, ...] = ()


def differences(old: Any, new: Any, path: str = "") -> Iterator[Difference]:
    """Each leaf that differs, by path."""
    before, after = _map(old), _map(new)
    if before is None or after is None:
        yield Difference(path, old, new, tuple(_lines(old, new)))
        return
    for key in sorted({*before, *after}):
        if before.get(key) != after.get(key):
            yield from differences(before.get(key), after.get(key), f"{path}.{key}" if path else key)


def _map(side: Any) -> Mapping[str, Any] | None:
    if side is None:
        return {}
    return side if isinstance(side, Mapping) else None


def _lines(old: Any, new: Any) -> Iterator[str]:
    sides = [side for side in (old, new) if isinstance(side, str)]
    if sum(len(side) for side in sides) > _LONGEST_COMPARED or sum(side.count("\n") for side in sides) > _MOST_COMPARED:
        counts = [side.count("\n") + 1 if isinstance(side, str) else 0 for side in (old, new)]
        yield f" {counts[0]:,} lines became {counts[1]:,}: too long to be compared here"
    elif sides and any(is_long(side) for side in sides):
        before, after = (side.splitlines() if isinstance(side, str) else [] for side in (old, new))
        head_and_lines = list(unified_diff(before, after, n=2, lineterm=""))
        yield from [line for line in head_and_lines[2:] if not line.startswith("@@ ")]
