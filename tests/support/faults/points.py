"""Every place at which a process of Penstock can die during a change, by what the user asked for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain, zip_longest

from tests.support.faults import host, manager, syncer
from tests.support.faults.orders import Point, points

VICTIMS = {"syncer": syncer.PORTS, "manager": manager.PORTS, "host": host.PORTS}
EVERYWHERE = tuple(point for victim, ports in VICTIMS.items() for point in points(victim, ports))

_OF_OUTPUTS = ("initialize_sink",)
_OF_REMOVALS = ("remove_generation", "generation to remove")
_OF_SAVEPOINTS = ("savepoint", "copy of a task")
_OF_QUIESCING = ("change task", "take no more rows")
_NOT_OF_RESTORES = (
    *_OF_QUIESCING,
    *("copy_state", "bring changes", "note what was copied", "take over", "finish pending", "level"),
)


def _about(point: Point, words: Iterable[str]) -> bool:
    return any(word in point.action for word in words)


OUTPUT = tuple(point for point in EVERYWHERE if _about(point, _OF_OUTPUTS))
SAVEPOINT = tuple(point for point in EVERYWHERE if _about(point, _OF_SAVEPOINTS))
COLLECTION = tuple(point for point in EVERYWHERE if _about(point, _OF_REMOVALS))
RESCALE = tuple(point for point in EVERYWHERE if point not in OUTPUT + SAVEPOINT + COLLECTION)
QUIESCE = tuple(point for point in RESCALE if _about(point, _OF_QUIESCING))
RESTORE = tuple(point for point in RESCALE if not _about(point, _NOT_OF_RESTORES))


def alternating(found: Sequence[Point]) -> list[Point]:
    """Another victim each time: one that dies again and again is started again later and later."""
    by_victim = [[point for point in found if point.victim == victim] for victim in VICTIMS]
    return [point for point in chain.from_iterable(zip_longest(*by_victim)) if point is not None]
