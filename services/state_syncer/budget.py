"""The blast-radius budget: how many jobs may be disrupted at once, and which of those that wait come next. Pure."""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from services.state_syncer.plan import Begin, Commit, JobView, Wait


@dataclass(frozen=True, slots=True)
class Budget:
    """At most `count` jobs at once, and at most this share of all jobs; one is always allowed."""

    share: float = 0.1
    count: int = 20

    def limit(self, jobs: int) -> int:
        """How many plans there may be in a cell of so many jobs."""
        return max(1, min(self.count, int(self.share * jobs)))


Change = TypeVar("Change", Begin, Commit)


class Candidate(NamedTuple, Generic[Change]):
    """A rescale, or the making of an output for a commit, that may begin."""

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


def put_off(candidate: Candidate[Begin], limit: int) -> Wait:
    """What a candidate without room is told."""
    plural = "s" if limit > 1 else ""
    detail = f"waiting: no more than {limit} job{plural} may be rescaled at once"
    return Wait(detail, candidate.begun.difference)
