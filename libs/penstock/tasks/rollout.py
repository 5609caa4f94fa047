"""A package that goes out in waves: which tasks run it, and what is kept of one that was not healthy. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any, NamedTuple

from penstock.config.classify import Difference
from penstock.config.model import Carried
from penstock.control.texts import Text

ROLLOUT_SHARE = 0.25
"""A wave's share of the tasks, unless a cell is set up otherwise."""

# Going back covers the query, since it may name what is in the package.
PACKAGE, QUERY = "package", "query"


class RanBefore(Carried):
    """What the tasks that are not upgraded run; `config` as JSON."""

    config: dict[str, Any]
    revision: int
    restarts: int


class RunningRollout(Carried):
    """`running.rollout`: the tasks from index `upgraded` on run `before`. Of no account in a row of another
    `revision`."""

    revision: int
    upgraded: int
    before: RanBefore


class LeafChange(Carried):
    """A leaf of the package or of the query; JSON values, None where it is null."""

    path: tuple[str, ...]
    old: Any
    new: Any


class Rejected(Carried):
    """`sync_state.rejected`: the leaves of a package that was not healthy, their good values being `old`.

    `layer_version`: that of the layer `rollback` when it was rejected; a higher one says that the layer was written.
    `goes_back`: the package before has worked in the job. One that never has is no better: the rollout is only halted.
    """

    revision: int
    leaves: tuple[LeafChange, ...]
    wave: int
    waves: int
    task: str | None
    error: Text
    layer_version: int = 0
    goes_back: bool = True

    @property
    def package(self) -> str:
        return ", ".join(f"{'.'.join(leaf.path)} {leaf.new}" for leaf in self.leaves if leaf.path[0] == PACKAGE)

    @property
    def details(self) -> dict[str, Any]:
        """Of an alert about it."""
        return self.model_dump(mode="json", exclude={"layer_version"}) | {"package": self.package}

    def about(self, job: str) -> str:
        """What was rejected, where and why, in words for people."""
        return f"{self.package}: wave {self.wave} of {self.waves}: {self.task or job}: {self.error}"


class RolloutOrder(StrEnum):
    """What an operator asks of a rollout that is under way."""

    PAUSE = "pause"
    ABORT = "abort"


class OrderedRollout(Carried):
    """`sync_state.rollout_order`: what an operator asked of the rollout that began at `begun_at`, and of no other."""

    action: RolloutOrder
    begun_at: datetime
    author: str
    reason: Text
    at: datetime


class SeenTask(NamedTuple):
    """A task as the container that owns it reports it. `has_worked`: a batch with rows is behind it.

    `silent_since`: when the container reported last, if that is too long ago to tell how the task is now.
    """

    state: str
    revision: int
    generation: int
    restarts: int
    crashes: int
    error: str | None
    has_worked: bool
    silent_since: datetime | None = None


class LayerContent(NamedTuple):
    """A layer of a job; `config` None after it was dropped."""

    layer: str
    config: Mapping[str, Any] | None
    version: int


def wave_ends(task_count: int, share: float) -> tuple[int, ...]:
    """How many tasks are upgraded once each wave has begun: one, then by `share` of all."""
    size = max(1, math.ceil(share * task_count))
    ends = [1]
    while ends[-1] < task_count:
        ends.append(min(task_count, ends[-1] + size))
    return tuple(ends)


def is_upgrade(fields: tuple[tuple[str, ...], ...]) -> bool:
    """Whether a difference in these paths is one of the package."""
    return any(path[0] == PACKAGE for path in fields)


def code_changes(difference: Difference) -> tuple[LeafChange, ...]:
    """The leaves of package and query that differ."""
    changes = (change for change in difference.fields if change.path[0] in (PACKAGE, QUERY))
    return tuple(LeafChange(path=change.path, old=change.old, new=change.new) for change in changes)


def good_values(leaves: tuple[LeafChange, ...]) -> dict[str, Any]:
    """The old values of leaves, as a layer."""
    groups = {leaf.path[0] for leaf in leaves}
    return {group: {leaf.path[1]: leaf.old for leaf in leaves if leaf.path[0] == group} for group in sorted(groups)}
