"""JSON objects in which a key occurs once. Of two values for a key every parser keeps another one. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any


class DuplicateKey(ValueError):
    """A key occurs twice in one object."""

    def __init__(self, key: str) -> None:
        super().__init__(f"the key {key!r} occurs twice in an object")
        self.key = key


def unique_keys(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """The object of these pairs: for `object_pairs_hook` of `json.loads`. Raises DuplicateKey."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise DuplicateKey(Counter(key for key, _ in pairs).most_common(1)[0][0])
    return found
