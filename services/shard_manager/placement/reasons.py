"""Why a shard has no place, for alerts and for people. Pure."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

import numpy as np

from services.shard_manager.placement.frame import Frame
from services.shard_manager.placement.problem import NOBODY, Flags, Floats, Ints


class Cause(StrEnum):
    """Why a shard cannot be placed."""

    NO_CONTAINER = "no_container"
    NOT_OPEN = "not_open"
    TOO_LARGE = "too_large"
    CAPACITY_SHORT = "capacity_short"


class Unplaceable(NamedTuple):
    """A shard without a place. `stays_on`: the draining container that keeps the shard; None when none does."""

    shard: int
    cause: Cause
    reason: str
    stays_on: str | None


def explain(frame: Frame, total: Floats, rows: Ints, stays_on: Ints) -> tuple[Unplaceable, ...]:
    """The reason for each of `rows`. `total` [C, D]: of the containers; `stays_on` [S]: a container, or `NOBODY`."""
    names, ids = frame.problem.containers.names, frame.problem.shards.ids
    room = frame.limit - total
    known: dict[bytes, tuple[Cause, str]] = {}
    found = []
    for row in rows:
        key = _alike(frame, int(row))
        if key not in known:
            known[key] = _cause(frame, int(row), room)
        stays = None if stays_on[row] == NOBODY else names[stays_on[row]]
        found.append(Unplaceable(int(ids[row]), *known[key], stays))
    return tuple(found)


def _alike(frame: Frame, row: int) -> bytes:
    """A key that is equal for shards that have the same reason."""
    return bytes(frame.load[row].tobytes() + frame.problem.shards.constraint[row].tobytes())


def _cause(frame: Frame, row: int, room: np.ndarray) -> tuple[Cause, str]:
    shards = frame.problem.shards
    satisfies, may_enter = frame.satisfies[shards.constraint[row]], frame.may_enter[shards.constraint[row]]
    where = _where(frame, row)
    if not satisfies.any():
        return Cause.NO_CONTAINER, f"no container{where}"
    if not may_enter.any():
        return Cause.NOT_OPEN, f"every container{where} is cordoned or drains"
    large = _too_large(frame, row, may_enter)
    if large:
        return Cause.TOO_LARGE, f"too large: {large}"
    return Cause.CAPACITY_SHORT, f"capacity short: {_short(frame, row, room[may_enter])}"


def _where(frame: Frame, row: int) -> str:
    constraint = frame.problem.shards.constraints[frame.problem.shards.constraint[row]]
    region = f" of region {' or '.join(sorted(constraint.regions))}" if constraint.regions else ""
    labels = f" with label {', '.join(sorted(constraint.labels))}" if constraint.labels else ""
    others = f" other than {', '.join(sorted(constraint.avoids))}" if constraint.avoids else ""
    return region + labels + others


def _too_large(frame: Frame, row: int, may_enter: Flags) -> str:
    load, offered = frame.load[row], frame.limit[may_enter]
    if (load <= offered).all(axis=1).any():
        return ""
    most = offered.max(axis=0)
    above = [
        f"{name} {load[place]:g} of at most {frame.usable[may_enter, place].max():g}"
        for place, name in enumerate(frame.problem.dimensions)
        if load[place] > most[place]
    ]
    return ", ".join(above) or "no container offers enough in all dimensions together"


def _short(frame: Frame, row: int, room: np.ndarray) -> str:
    """The dimensions in which no container has room for the shard."""
    most = room.max(axis=0)
    names = [name for place, name in enumerate(frame.problem.dimensions) if frame.load[row, place] > most[place]]
    return ", ".join(names) or "no container has room in all dimensions at once"
