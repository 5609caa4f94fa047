"""Are the tasks of a job gone? The answer is present, absent or unknown. Unknown is never treated as absent.

- A live container has stopped the job when its newest report meets three conditions. It is of the present incarnation,
  it was made after the stopping commit was applied, and it lists no task of the job. The container then starts none.
- A lost container was failed over: its lease had run out, so it had stopped every task before.
  Its last report no longer counts.
- Anything else is unknown: a container that has not reported since, or that only the assignment or a task's row names.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple


class Presence(Enum):
    """What is known of the tasks of a job that is to stop."""

    ABSENT = "absent"
    PRESENT = "present"
    UNKNOWN = "unknown"


class Quiet(NamedTuple):
    """What is known of the tasks of a job that take no more rows. `busy`: tasks that have not said yet that their batch
    is done. `unheard`: containers may run tasks of which nothing is known. Unknown is never quiet."""

    busy: int = 0
    unheard: bool = True

    @property
    def is_certain(self) -> bool:
        """Whether no task is in a batch with rows."""
        return not self.busy and not self.unheard

    def __str__(self) -> str:
        if self.busy:
            return f"{self.busy} tasks have not finished their batches"
        return "not every container has reported since" if self.unheard else "all tasks have finished their batches"


UNHEARD = Quiet()


class Sighting(NamedTuple):
    """A container and its newest report; `applied_commit` is the commit that the report was made after."""

    container: str
    incarnation: str
    live: bool
    reported_incarnation: str | None
    applied_commit: int | None


@dataclass(frozen=True, slots=True)
class ClusterView:
    """All containers at one moment.

    `reporting`: live ones with a report of their present incarnation. `lost`: failed over. `applied_commit`: the newest
    commit that every live container has applied. None while one has not reported, or owns shards but is not listed.
    """

    reporting: frozenset[str]
    lost: frozenset[str]
    applied_commit: int | None


NO_CONTAINERS_APPLIED = 2**63 - 1


def survey(sightings: Iterable[Sighting], owners: Collection[str]) -> ClusterView:
    """The cluster's view; `owners` are the containers that own a shard by the stored assignment."""
    seen = tuple(sightings)
    applied = {sighting.container: _applied(sighting) for sighting in seen if sighting.live}
    known = {container: commit for container, commit in applied.items() if commit is not None}
    complete = len(known) == len(applied) and {sighting.container for sighting in seen}.issuperset(owners)
    return ClusterView(
        reporting=frozenset(known),
        lost=frozenset(sighting.container for sighting in seen if not sighting.live),
        applied_commit=min(known.values(), default=NO_CONTAINERS_APPLIED) if complete else None,
    )


def _applied(sighting: Sighting) -> int | None:
    return sighting.applied_commit if sighting.reported_incarnation == sighting.incarnation else None


def observe_quiet(cluster: ClusterView, tasks: Mapping[str, int], commit_number: int) -> Quiet:
    """Whether the tasks to which the commit `commit_number` gives no more rows have finished their batches.

    `tasks`: by container whose newest report lists tasks of the job, how many of them have not. A task that no live
    container lists runs nowhere.
    """
    everyone_knows = cluster.applied_commit is not None and cluster.applied_commit >= commit_number
    busy = sum(count for container, count in tasks.items() if container in cluster.reporting)
    heard = everyone_knows and all(name in cluster.reporting or name in cluster.lost for name in tasks)
    return Quiet(busy, unheard=not heard)


def observe_stopped(cluster: ClusterView, holders: Collection[str], commit_number: int) -> Presence:
    """Whether the tasks that the commit `commit_number` stops are gone.

    `holders` are the containers whose newest report lists a task of the job.
    """
    if any(holder in cluster.reporting for holder in holders):
        return Presence.PRESENT
    everyone_knows = cluster.applied_commit is not None and cluster.applied_commit >= commit_number
    if everyone_knows and cluster.lost.issuperset(holders):
        return Presence.ABSENT
    return Presence.UNKNOWN
