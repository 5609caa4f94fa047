"""JSON merge patch (RFC 7386): `null` drops a key, maps are merged, anything else replaces."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.control.errors import InvalidConfig

# Far deeper than any configuration; bounds the recursion on what a caller sends.
MAX_DEPTH = 32


def apply_merge_patch(target: Any, patch: Any, *, depth_left: int = MAX_DEPTH) -> Any:
    """`target` changed by `patch`, by the pseudo-code of RFC 7386 section 2; neither is changed in place.

    The result shares unchanged values with both. A patch that is no map replaces the target. Raises InvalidConfig
    (rule `too_deep`) when the patch nests more than MAX_DEPTH maps.
    """
    if not isinstance(patch, Mapping):
        return patch
    if depth_left == 0:
        raise InvalidConfig(f"a patch may nest at most {MAX_DEPTH} maps", rule="too_deep")
    patched: dict[str, Any] = dict(target) if isinstance(target, Mapping) else {}
    for key, value in patch.items():
        if value is None:
            patched.pop(key, None)
        else:
            patched[key] = apply_merge_patch(patched.get(key), value, depth_left=depth_left - 1)
    return patched
