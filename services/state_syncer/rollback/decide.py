"""What to do about a rejected package: from its record and the job's layers to one write. Pure.

The version of the layer `rollback` shows whether it was written since, so nothing has to be noted when it was: a crash
at any point, or another hand in the layer, leads to the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

from penstock.config.declare import ROLLBACK_LAYER
from penstock.config.merge import overlay
from penstock.config.tree import Leaf, find
from penstock.tasks.rollout import LayerContent, Rejected, good_values

MOST_CHARACTERS = 500


@dataclass(frozen=True, slots=True)
class Write:
    """Replace the layer, which has `version`; drop it where `config` is None."""

    config: Mapping[str, Any] | None
    version: int
    reason: str


@dataclass(frozen=True, slots=True)
class Keep:
    """The layer does what it should."""


@dataclass(frozen=True, slots=True)
class Forget:
    """Nothing holds the package back any more, and nothing needs to: the record may go."""


def decide_rollback(rejected: Rejected, layers: Sequence[LayerContent]) -> Write | Keep | Forget:
    """`layers`: all of the job, lowest first. A layer that somebody dropped after it was written stays dropped. Of a
    halted rollout nothing is written: the record goes once another package is asked for."""
    own = next((layer for layer in layers if layer.layer == ROLLBACK_LAYER), LayerContent(ROLLBACK_LAYER, None, 0))
    is_written = own.version > rejected.layer_version
    is_asked_for = _is_asked_for(rejected, layers)
    if own.config is None and ((is_written and rejected.goes_back) or not is_asked_for):
        return Forget()
    if not is_asked_for:
        return Write(None, own.version, f"another package is asked for than the rejected one: {rejected.package}")
    if is_written or not rejected.goes_back:
        return Keep()
    return Write(overlay(own.config or {}, good_values(rejected.leaves)), own.version, _reason(rejected))


def _is_asked_for(rejected: Rejected, layers: Sequence[LayerContent]) -> bool:
    """Whether all other layers still give the very values that were rejected."""
    others = [layer.config for layer in layers if layer.layer != ROLLBACK_LAYER and layer.config is not None]
    merged: Mapping[str, Any] = reduce(overlay, others, {})
    return all(_value(merged, leaf.path) == leaf.new for leaf in rejected.leaves)


def _value(merged: Mapping[str, Any], path: tuple[str, ...]) -> Any:
    group, name = path
    node = find(path)
    default = node.row.default if isinstance(node, Leaf) else None
    return merged.get(group, {}).get(name, default)


def _reason(rejected: Rejected) -> str:
    where = f"{rejected.package} of revision {rejected.revision}: wave {rejected.wave} of {rejected.waves}"
    return f"{where}: {rejected.task or 'unknown'}: {rejected.error}"[:MOST_CHARACTERS]
