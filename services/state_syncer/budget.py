"""The blast-radius budget: how many jobs may be disrupted at once, and which of those that wait come next. Pure."""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from services.state_syncer.plan import Begin, Commit, JobView, SyncState, Upgrade, Wait


class Room(NamedTuple):
    """How many jobs may be disrupted at once, `rescales` of them by a rescale; and for how many more there is room."""

    limit: int
    free: int
    rescales: int
    free_rescales: int


@dataclass(frozen=True, slots=True)
class Budget:
    """At most `count` jobs are disrupted at once, and at most this share of all jobs, by rescales and rollouts
    together; one is always allowed. `rescales`: of these, at most so many by a rescale."""

    share: float = 0.1
    count: int = 10_000
    rescales: int = 20

    def limit(self, jobs: int) -> int:
        """How many jobs may be disrupted at once, of so many."""
        return max(1, min(self.count, int(self.share * jobs)))

    def room(self, jobs: int, *, active: int, rescales: int) -> Room:
        """The room in a cell of so many jobs, while `active` plans are recorded, `rescales` of them of rescales."""
        limit = self.limit(jobs)
        return Room(limit, limit - active, self.rescales, self.rescales - rescales)


Change = TypeVar("Change", bound=Begin | Upgrade | Commit)


class Candidate(NamedTuple, Generic[Change]):
    """A rescale, a rollout, or the making of an output for a commit, that may begin."""

    view: JobView
    begun: Change


class Queue(Generic[Change]):
    """Picks the `room` candidates that come first: by priority, then the oldest write, then by name.

    Holds no more than it picks, however many wait.
    """

    def __init__(self, room: int) -> None:
        self._room = room
        self._heap: list[tuple[int, int, _LastFirst, Candidate[Change]]] = []

    def offer(self, candidate: Candidate[Change]) -> Candidate[Change] | None:
        """Takes a candidate in; the one that must wait for it, if there is no room for both."""
        if self._room <= 0:
            return candidate
        view = candidate.view
        entry = (int(candidate.begun.config["priority"]), -view.revision, _LastFirst(view.job), candidate)
        if len(self._heap) < self._room:
            heapq.heappush(self._heap, entry)
            return None
        return heapq.heappushpop(self._heap, entry)[3]

    def picked(self) -> list[Candidate[Change]]:
        """Those that may begin, first come first."""
        return [entry[3] for entry in sorted(self._heap, reverse=True, key=lambda entry: entry[:3])]


class _LastFirst(str):
    """A name that sorts backwards."""

    __slots__ = ()

    def __lt__(self, other: str) -> bool:
        return str.__gt__(self, other)

    def __gt__(self, other: str) -> bool:
        return str.__lt__(self, other)


def put_off(candidate: Candidate[Begin | Upgrade], room: Room) -> Wait:
    """What a candidate without room is told."""
    change = candidate.begun
    by_rescales = isinstance(change, Begin) and room.rescales < room.limit
    why = no_room(room.rescales, "rescaled") if by_rescales else no_room(room.limit)
    return Wait(why, change.difference, state=SyncState.QUEUED)


def no_room(limit: int, what: str = "disrupted") -> str:
    """What a change waits for."""
    return f"waiting: no more than {limit} job{'s' if limit > 1 else ''} may be {what} at once"


class Turns:
    """Which rescales and rollouts may begin: one order for both, and a limit more for rescales. A job that is
    disrupted already, since a rollout goes on, needs no room of its own."""

    def __init__(self, room: Room) -> None:
        self.room = room
        self._rescales: Queue[Begin | Upgrade] = Queue(room.free_rescales)
        self._upgrades: Queue[Begin | Upgrade] = Queue(room.free)

    def offer(self, candidate: Candidate[Begin | Upgrade]) -> Candidate[Begin | Upgrade] | None:
        """Takes a candidate in; one that must wait, if it is known already."""
        queue = self._rescales if isinstance(candidate.begun, Begin) else self._upgrades
        return queue.offer(candidate)

    def picked(self) -> tuple[list[Candidate[Begin | Upgrade]], list[Candidate[Begin | Upgrade]]]:
        """Those that may begin, first come first, and those that must wait."""
        begin: list[Candidate[Begin | Upgrade]] = []
        late: list[Candidate[Begin | Upgrade]] = []
        free = self.room.free
        for candidate in heapq.merge(self._rescales.picked(), self._upgrades.picked(), key=_turn):
            needs = candidate.view.rolling is None
            (begin if free > 0 or not needs else late).append(candidate)
            free -= needs and free > 0
        return begin, late


def _turn(candidate: Candidate[Begin | Upgrade]) -> tuple[int, int, str]:
    view = candidate.view
    return -int(candidate.begun.config["priority"]), view.revision, view.job
