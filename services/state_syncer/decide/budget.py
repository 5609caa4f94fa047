"""The blast-radius budget: how many jobs may be disrupted at once, and which waiting jobs come next. Pure."""

from __future__ import annotations

import heapq
from bisect import insort
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from penstock.model.jobs import JobState
from services.state_syncer.decide.decisions import Commit, Poll, Record, StartRescale, StartRollout, Wait
from services.state_syncer.decide.progress import Plan
from services.state_syncer.decide.view import JobView

Start = StartRescale | StartRollout | Record[Plan]
"""What needs room: a rescale or a rollout that begins, or the step of a rescale that disrupts its job."""
Ready = TypeVar("Ready", bound=Start | Commit)


class Waits(NamedTuple):
    """What jobs without room wait for, for people. `for_turn`: a rescale about which nobody has decided yet, whether it
    begins with a copy or not."""

    for_rescale: str
    for_rollout: str
    for_copy: str
    for_place: str
    for_turn: str


class Room(NamedTuple):
    """How many jobs may be disrupted at once, `rescales` of them by a rescale; and for how many more there is room. The
    same of `copies`, which disrupt no job. `of_stopped`: how many rescales under way are of stopped jobs, and disrupt
    none either."""

    limit: int
    free: int
    rescales: int
    free_rescales: int
    copies: int = 0
    free_copies: int = 0
    of_stopped: int = 0

    @property
    def waits(self) -> Waits:
        """What the sync states of jobs without room say."""
        any_change = _no_room(self.limit, "be disrupted")
        place = _no_room(self.rescales, "be rescaled")
        rescale = place if self.rescales < self.limit else any_change
        copy, least = _no_room(self.copies, "be copied"), min(self.rescales, self.limit)
        turn = f"{_WAITING}at once, at most {_jobs(self.copies)} may be copied and {_jobs(least)} rescaled"
        return Waits(rescale, any_change, copy, place, turn)

    @property
    def kept(self) -> str:
        """What a rollout is told that must leave the last room to rescales."""
        return f"{_no_room(self.limit, 'be disrupted')}, and rescales that wait come first"


_WAITING = "waiting: "


def _jobs(count: int) -> str:
    return f"{count} job{'s' if count > 1 else ''}"


def _no_room(limit: int, what: str) -> str:
    return f"{_WAITING}no more than {_jobs(limit)} may {what} at once"


@dataclass(frozen=True, slots=True)
class Budget:
    """Rescales and rollouts together disrupt at most `count` jobs at once, and at most `share` of all jobs. One job is
    always allowed. `rescales`: the limit for rescales among them. `outputs`: the most outputs that are made at once.
    `copies`: the most jobs beside those whose state is copied while their tasks run."""

    share: float = 0.1
    count: int = 10_000
    rescales: int = 20
    outputs: int = 32
    copies: int = 20

    def room(self, jobs: int, *, rollouts: int = 0, rescales: int = 0, of_stopped: int = 0, copies: int = 0) -> Room:
        """The room in a cell of so many jobs, with so many rollouts and rescales under way, `of_stopped` of these of
        stopped jobs, and so many plans that only copy."""
        limit = max(1, min(self.count, int(self.share * jobs)))
        free = limit - rollouts - (rescales - of_stopped)
        places, copies_left = self.rescales - rescales, self.copies - copies
        return Room(limit, free, self.rescales, places, self.copies, copies_left, of_stopped)


class Candidate(NamedTuple, Generic[Ready]):
    """A job whose rescale, rollout or output could begin now."""

    view: JobView
    start: Ready


def _turn(candidate: Candidate[Ready]) -> tuple[int, int, str]:
    """The order of admission: by priority, then the oldest write, then by name."""
    view, start = candidate
    match start:
        case Commit(config):
            wanted = config
        case Record(plan):
            wanted = plan.config
        case StartRescale(commit) | StartRollout(commit):
            wanted = commit.config
    return -int(wanted["priority"]), view.revision, view.job


class Queue(Generic[Ready]):
    """Picks the `room` candidates that come first. Holds no more than it picks, however many wait."""

    def __init__(self, room: int) -> None:
        self._room = room
        self.picked: list[Candidate[Ready]] = []

    def offer(self, candidate: Candidate[Ready]) -> Candidate[Ready] | None:
        """Adds a candidate. Returns the candidate that must wait because there is no room for both."""
        insort(self.picked, candidate, key=_turn)
        return self.picked.pop() if len(self.picked) > max(0, self._room) else None


def put_off(candidate: Candidate[Start], room: Room, *, is_kept: bool = False) -> Wait | Poll[Plan]:
    """What a candidate without room is told; `is_kept`: the room that there is, is kept for rescales.

    Its failures stay counted: only an attempt that goes well ends them. A plan that would disrupt its job stays as it
    was recorded.
    """
    view, start = candidate
    match start:
        case Record(plan):
            return Poll(plan if view.progress is None else view.progress.plan, room.waits.for_rescale)
        case StartRescale(copies=True):
            why = room.waits.for_copy
        case StartRescale():
            why = room.waits.for_rescale if _needs_room(candidate) else room.waits.for_place
        case StartRollout():
            why = room.kept if is_kept else room.waits.for_rollout
    return Wait(why, start.commit.difference, view.failures_since(view.revision), JobState.QUEUED)


class AdmissionQueue:
    """Which rescales and rollouts may begin.

    Rescales and rollouts share one order and one limit, and rescales have a limit of their own. Rollouts leave room for
    the rescales that wait, so a release of many jobs does not hold every rescale up until its end: up to the limit of
    rescales, and half of all room at most. A job that is disrupted already, since a rollout goes on, needs no room, nor
    does one that is stopped: a rescale of it only needs one of the places for rescales.

    A rescale that begins with a copy disrupts nothing yet: it only needs one of the places for copies. When it has
    copied, and would disrupt its job, it goes before all that has not begun: its copy gets out of date.

    `kept_back`, once it has picked: the rollouts that wait though there is room, which is kept for rescales.
    """

    def __init__(self, room: Room) -> None:
        self.room = room
        self.kept_back: set[str] = set()
        self._copied: Queue[Start] = Queue(min(room.free, room.free_rescales))
        self._copies: Queue[Start] = Queue(room.free_copies)
        self._rescales: Queue[Start] = Queue(room.free_rescales)
        self._rollouts: Queue[Start] = Queue(room.free)

    def offer(self, candidate: Candidate[Start]) -> Candidate[Start] | None:
        """Adds a candidate. Returns one that must wait, if that is known already."""
        return self._queue_of(candidate.start).offer(candidate)

    def _queue_of(self, start: Start) -> Queue[Start]:
        match start:
            case Record():
                return self._copied
            case StartRescale(copies=True):
                return self._copies
            case StartRescale():
                return self._rescales
            case StartRollout():
                return self._rollouts

    def picked(self) -> tuple[list[Candidate[Start]], list[Candidate[Start]]]:
        """Those that may begin, first come first, and those that must wait."""
        copied = len(self._copied.picked)
        begin: list[Candidate[Start]] = [*self._copied.picked, *self._copies.picked]
        free, places = self.room.free - copied, max(0, self.room.free_rescales - copied)
        rescales, late = self._rescales.picked[:places], self._rescales.picked[places:]
        kept = min(_kept_for_rescales(self.room, copied), sum(_needs_room(each) for each in rescales))
        for candidate in heapq.merge(rescales, self._rollouts.picked, key=_turn):
            is_rescale = isinstance(candidate.start, StartRescale)
            if not _needs_room(candidate):
                begin.append(candidate)
            elif free > (0 if is_rescale else kept):
                begin.append(candidate)
                free -= 1
                kept -= is_rescale and kept > 0
            else:
                late.append(candidate)
                if free > 0:
                    self.kept_back.add(candidate.view.job)
        return begin, late


def _kept_for_rescales(room: Room, begun: int) -> int:
    """How many rescales may still begin in the room that rollouts leave to rescales, after so many in this round."""
    active = room.rescales - room.free_rescales - room.of_stopped + begun
    return max(0, min(room.rescales, room.limit // 2) - active)


def _needs_room(candidate: Candidate[Start]) -> bool:
    """Not a job that is disrupted already, since a rollout goes on; nor one that is stopped."""
    running = candidate.view.running
    return candidate.view.rolling is None and (running is None or running.asks_for_tasks)
