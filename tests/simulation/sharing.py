"""Immutable values that thousands of simulated processes would each compute alike: computed once, and shared.

Only pure functions of immutable values are here, so nobody can tell, but for the time and memory that it takes.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import orjson

MOST_KEPT = 64


class Snapshots:
    """Stands for `Snapshot` where bodies are read: the same body is read once."""

    def __init__(self, read: Callable[[bytes], Any]) -> None:
        self._read = read
        self._known: OrderedDict[bytes, Any] = OrderedDict()

    def model_validate_json(self, body: bytes) -> Any:
        if body not in self._known:
            _keep(self._known, body, self._read(body))
        return self._known[body]


class Shared:
    """Stands for a function that gives the same for the same: of its arguments the first `by_identity` are known by
    their identity, the others by their value."""

    def __init__(self, call: Callable[..., Any], by_identity: int) -> None:
        self._call = call
        self._count = by_identity
        self._known: OrderedDict[tuple[Any, ...], tuple[Any, Any]] = OrderedDict()

    def __call__(self, *values: Any) -> Any:
        """What it is made from is kept with it, so that no other has its identity."""
        key = (*map(id, values[: self._count]), *values[self._count :])
        if key not in self._known:
            _keep(self._known, key, (values, self._call(*values)))
        return self._known[key][1]


class Expectations:
    """Stands for `services.state_syncer.store.recorded.expected_config`: equal layers merge to equal configurations."""

    def __init__(self, merge: Callable[..., Any]) -> None:
        self._merge = merge
        self._known: OrderedDict[bytes, Any] = OrderedDict()

    def __call__(self, layers: Any) -> Any:
        key = orjson.dumps(layers)
        if key not in self._known:
            _keep(self._known, key, self._merge(layers))
        return self._known[key]


def _keep(known: OrderedDict[Any, Any], key: Any, value: Any) -> None:
    known[key] = value
    if len(known) > MOST_KEPT:
        known.popitem(last=False)
