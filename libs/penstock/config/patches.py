"""The merge patch (RFC 7386) between two contents of a layer. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def patch_between(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """The merge patch that makes `new` of `old`. A key with null in `new` is one that the layer does not set."""
    patch: dict[str, Any] = {key: None for key in old if new.get(key) is None}
    for key, value in new.items():
        before = old.get(key)
        if value is None or (key in old and before == value):
            continue
        both = isinstance(before, Mapping) and isinstance(value, Mapping)
        patch[key] = patch_between(before, value) if both else value  # type: ignore[arg-type]
    return patch
