"""The blast-radius budget: how many jobs may be disrupted at once, and which waiting jobs come next. Pure."""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from services.state_syncer.decide.decisions import Commit, StartRescale, StartRollout, Wait
from services.state_syncer.decide.view import JobView, SyncState


class Room(NamedTuple):
    """How many jobs may be disrupted at once, `rescales` of them by a rescale; and for how many more there is room."""

    limit: int
    free: int
    rescales: int
    free_rescales: int


@dataclass(frozen=True, slots=True)
class Budget:
    """Rescales and rollouts together disrupt at most `count` jobs at once, and at most `share` of all jobs. One job is
    always allowed. `rescales`: the limit for rescales among them."""

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

    def waits(self, jobs: int) -> Waits:
        """What the sync states of jobs without room say, in a cell of so many jobs."""
        return _waits(self.limit(jobs), self.rescales)


class Waits(NamedTuple):
    """What jobs without room wait for, for people."""

    for_rescale: str
    for_rollout: str


def _waits(limit: int, rescales: int) -> Waits:
    any_change = _no_room(limit, "disrupted")
    return Waits(_no_room(rescales, "rescaled") if rescales < limit else any_change, any_change)


def _no_room(limit: int, what: str) -> str:
    return f"waiting: no more than {limit} job{'s' if limit > 1 else ''} may be {what} at once"


Change = TypeVar("Change", bound=StartRescale | StartRollout | Commit)


class Candidate(NamedTuple, Generic[Change]):
    """A job whose rescale, rollout or output could begin now."""

    view: JobView
    start: Change


class Queue(Generic[Change]):
    """Picks the `room` candidates that come first: by priority, then the oldest write, then by name.

    Holds no more than it picks, however many wait.
    """

    def __init__(self, room: int) -> None:
        self._room = room
        self._heap: list[tuple[int, int, _LastFirst, Candidate[Change]]] = []

    def offer(self, candidate: Candidate[Change]) -> Candidate[Change] | None:
        """Adds a candidate. Returns the candidate that must wait because there is no room for both."""
        if self._room <= 0:
            return candidate
        view = candidate.view
        entry = (int(candidate.start.config["priority"]), -view.revision, _LastFirst(view.job), candidate)
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


def put_off(candidate: Candidate[StartRescale | StartRollout], room: Room) -> Wait:
    """What a candidate without room is told. Its failures stay counted: only an attempt that goes well ends them."""
    start, waits = candidate.start, _waits(room.limit, room.rescales)
    why = waits.for_rescale if isinstance(start, StartRescale) else waits.for_rollout
    view = candidate.view
    return Wait(why, start.difference, view.failures_since(view.revision), SyncState.QUEUED)


class AdmissionQueue:
    """Which rescales and rollouts may begin.

    Rescales and rollouts share one order and one limit, and rescales have a limit of their own. Rollouts leave room for
    the rescales that wait, so a release of many jobs does not hold every rescale up until its end: up to the limit of
    rescales, and half of all room at most. A job that is disrupted already, since a rollout goes on, needs no room.
    """

    def __init__(self, room: Room) -> None:
        self.room = room
        self._rescales: Queue[StartRescale | StartRollout] = Queue(room.free_rescales)
        self._rollouts: Queue[StartRescale | StartRollout] = Queue(room.free)

    def offer(self, candidate: Candidate[StartRescale | StartRollout]) -> Candidate[StartRescale | StartRollout] | None:
        """Adds a candidate. Returns one that must wait, if that is known already."""
        queue = self._rescales if isinstance(candidate.start, StartRescale) else self._rollouts
        return queue.offer(candidate)

    def picked(
        self,
    ) -> tuple[list[Candidate[StartRescale | StartRollout]], list[Candidate[StartRescale | StartRollout]]]:
        """Those that may begin, first come first, and those that must wait."""
        begin: list[Candidate[StartRescale | StartRollout]] = []
        late: list[Candidate[StartRescale | StartRollout]] = []
        rescales, free = self._rescales.picked(), self.room.free
        kept = min(_kept_for_rescales(self.room), sum(_needs_room(each) for each in rescales))
        for candidate in heapq.merge(rescales, self._rollouts.picked(), key=_turn):
            is_rescale = isinstance(candidate.start, StartRescale)
            if not _needs_room(candidate):
                begin.append(candidate)
            elif free > (0 if is_rescale else kept):
                begin.append(candidate)
                free -= 1
                kept -= is_rescale and kept > 0
            else:
                late.append(candidate)
        return begin, late


def _kept_for_rescales(room: Room) -> int:
    """How many rescales may still begin in the room that rollouts leave to rescales."""
    active = room.rescales - room.free_rescales
    return max(0, min(room.rescales, room.limit // 2) - active)


def _needs_room(candidate: Candidate[StartRescale | StartRollout]) -> bool:
    return candidate.view.rolling is None


def _turn(candidate: Candidate[StartRescale | StartRollout]) -> tuple[int, int, str]:
    view = candidate.view
    return -int(candidate.start.config["priority"]), view.revision, view.job
