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
class TakenBack:
    """The layer was written since the package was rejected, and the package is not asked for any more."""


@dataclass(frozen=True, slots=True)
class Keep:
    """People have to say what shall run: no package is known to go back to, or they have put the rejected one into the
    layer themselves."""


@dataclass(frozen=True, slots=True)
class Forget:
    """Nothing holds the package back any more, and nothing needs to: the record may go."""


def decide_rollback(rejected: Rejected, layers: Sequence[LayerContent]) -> Write | TakenBack | Keep | Forget:
    """`layers`: all of the job, lowest first. A layer that somebody dropped after it was written stays dropped. Of a
    halted rollout nothing is written: the record goes once another package is asked for."""
    own = next((layer for layer in layers if layer.layer == ROLLBACK_LAYER), LayerContent(ROLLBACK_LAYER, None, 0))
    is_written = own.version > rejected.layer_version
    is_asked_for = _is_asked_for(rejected, [layer for layer in layers if layer.layer != ROLLBACK_LAYER])
    if own.config is None and ((is_written and rejected.goes_back) or not is_asked_for):
        return Forget()
    if not is_asked_for:
        return Write(None, own.version, f"another package is asked for than the rejected one: {rejected.package}")
    if not rejected.goes_back:
        return Keep()
    if is_written and not _is_asked_for(rejected, layers):
        return TakenBack()
    if is_written and _sets_any(own.config or {}, rejected):
        return Keep()
    return Write(overlay(own.config or {}, good_values(rejected.leaves)), own.version, _reason(rejected))


def _sets_any(config: Mapping[str, Any], rejected: Rejected) -> bool:
    return any(leaf.path[1] in config.get(leaf.path[0], {}) for leaf in rejected.leaves)


def _is_asked_for(rejected: Rejected, layers: Sequence[LayerContent]) -> bool:
    """Whether these layers give the very values that were rejected."""
    merged: Mapping[str, Any] = reduce(overlay, [layer.config for layer in layers if layer.config is not None], {})
    return all(_value(merged, leaf.path) == leaf.new for leaf in rejected.leaves)


def _value(merged: Mapping[str, Any], path: tuple[str, ...]) -> Any:
    group, name = path
    node = find(path)
    default = node.row.default if isinstance(node, Leaf) else None
    return merged.get(group, {}).get(name, default)


def _reason(rejected: Rejected) -> str:
    where = f"{rejected.package} of revision {rejected.revision}: wave {rejected.wave} of {rejected.waves}"
    return f"{where}: {f'{rejected.task}: ' if rejected.task else ''}{rejected.error}"[:MOST_CHARACTERS]


# ---- writes that the Job Service refuses

FIRST_PAUSE_SECONDS = 2.0
LONGEST_PAUSE_SECONDS = 300.0
_TOKEN = "Give the State Syncer a token that may write the layer rollback (PENSTOCK_STATE_SYNCER_TOKEN)"
_AGAIN = "It is tried again"


@dataclass(frozen=True, slots=True)
class Refusal:
    """A write that was not done, so many times in a row. `status`: as of HTTP; 503 when there was no answer."""

    status: int
    detail: str
    times: int = 1

    @property
    def pause_seconds(self) -> float:
        """How long to wait before the next try."""
        return min(LONGEST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2.0 ** min(self.times - 1, 10))

    @property
    def needs_people(self) -> bool:
        """Whether people are told of it: a lost race or a Job Service that was away for a moment needs nobody."""
        return self.times > 1 or self.status not in (409, 503)

    @property
    def why(self) -> str:
        """Why the package is not rolled back, and what to do."""
        match self.status:
            case 401 | 403:
                to_do = f"{_TOKEN}. {_AGAIN}"
            case 409 | 503:
                to_do = _AGAIN
            case _:
                to_do = f"Mend that, or give another package. {_AGAIN}"
        return f"{self.detail.rstrip('.')}. {to_do}"
