"""Are the tasks of a job gone? The answer is present, absent or unknown. Unknown is never treated as absent.

- A live container has stopped the job when its newest report meets three conditions. It is of the present incarnation,
  it was made after the stopping commit was applied, and it lists no task of the job. The container then starts none.
- A lost container was failed over: its lease had run out, so it had stopped every task before.
  Its last report no longer counts.
- A live container that owns no shard of the job's tasks runs none: a shard gets another owner only after its former one
  said that it stopped the shard's tasks. What such a container reported before the stop is out of date. But it may get
  a shard later, and have old specs. So the stop is first written down as `unasked_stop`. Whoever gets a shard after
  that starts its tasks only from specs that are at least as new as this commit.
- Anything else is unknown: an owner that has not reported since, or one that only the assignment or a task's row names.

A live container that has not reported for `SILENT` is silent or unheard. In both cases it is unknown what it runs.

- It is silent when `penstock.model.health` counts it as lost: others report, and its heartbeats ended with its reports.
  A heartbeat of another container must also have come since its next report was due. It is written some seconds later,
  so it can take 15 s more until the container counts as silent.
- Otherwise it is unheard: it sends heartbeats, or the store or the Task Service was away, so that nobody reports. A
  container that is alone is never silent.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import NamedTuple

from penstock.model.health import SILENT, Heard, Moment, heard
from penstock.tasks.shards import Sharding
from penstock.tasks.spec import task_id


class Presence(Enum):
    """What is known of the tasks of a job that is to stop.

    UNTOLD: they are gone, but a live container has not said that it knows of the stop. They are absent once the store
    has the stop's commit as `unasked_stop`: then a container that gets a shard later needs specs as new as it.
    """

    ABSENT = "absent"
    UNTOLD = "untold"
    PRESENT = "present"
    UNKNOWN = "unknown"


class Sighting(NamedTuple):
    """A container and its newest report; `applied_commit` is the commit that the report was made after.

    `reported_at`: when that report came; None without one. `alive_at`: as `penstock.model.health` has it.
    """

    container: str
    incarnation: str
    live: bool
    reported_incarnation: str | None
    applied_commit: int | None
    reported_at: datetime | None = None
    alive_at: datetime | None = None


class Silent(NamedTuple):
    """A container that has not reported for so long, while others did, that it may be dead."""

    container: str
    seconds: float

    def __str__(self) -> str:
        return f"{self.container} has not reported for {self.seconds:,.0f} s"


class Unheard(NamedTuple):
    """A container whose reports do not arrive. Nothing says that it is dead: it lives, or nobody's reports arrive."""

    container: str
    seconds: float

    def __str__(self) -> str:
        return f"reports of {self.container} have not arrived for {self.seconds:,.0f} s"


class JobsTasks(NamedTuple):
    """The tasks that a job may have, in the shards of its `selector`."""

    job: str
    task_count: int
    selector: str | None


class ListedTask(NamedTuple):
    """A task that the newest report of a container lists."""

    container: str
    number: int


class Assignment(NamedTuple):
    """The owner of each shard, None for nobody, of the moment of the sightings. `unasked_stop`: as the store has it."""

    owners: Mapping[int, str | None]
    sharding: Sharding
    unasked_stop: int = 0

    def owner_of(self, tasks: JobsTasks, number: int) -> str | None:
        """The container that may run a task. Raises LookupError when it is unknown which shard the task is in."""
        shard = self.sharding.shard_of(task_id(tasks.job, number), tasks.selector)
        if shard is None:
            raise LookupError(tasks.job)
        return self.owners[shard]


NO_ASSIGNMENT = Assignment({}, Sharding(1))


@dataclass(frozen=True, slots=True)
class ClusterView:
    """All containers at one moment.

    `reporting`: live ones with a report of their present incarnation. `lost`: failed over. `applied_commit`: the newest
    commit that every live container has applied. None while one has not reported, or owns shards but is not listed.
    `applied`: the newest commit that each live one has applied; None: it has not reported in its present incarnation.
    `silent`, `unheard`: live ones that have not reported for so long, in seconds, that it is unknown what they run.
    The silent ones may be dead; of the unheard ones nothing says so.
    """

    reporting: frozenset[str]
    lost: frozenset[str]
    applied_commit: int | None
    applied: Mapping[str, int | None] = field(default_factory=dict)
    assignment: Assignment = NO_ASSIGNMENT
    silent: Mapping[str, float] = field(default_factory=dict)
    unheard: Mapping[str, float] = field(default_factory=dict)

    def everyone_knows(self, commit_number: int) -> bool:
        """Whether every live container has applied a commit."""
        return self.applied_commit is not None and self.applied_commit >= commit_number

    def owners_of(self, tasks: JobsTasks | None) -> frozenset[str] | None:
        """The containers that may run one of the tasks; None when they are unknown."""
        if tasks is None:
            return None
        try:
            owners = {self.assignment.owner_of(tasks, number) for number in range(tasks.task_count)}
        except LookupError:
            return None
        return frozenset(owner for owner in owners if owner is not None)

    def owners_know(self, tasks: JobsTasks | None, commit_number: int) -> bool:
        """Whether every container that may run one of the tasks has applied a commit, or is lost."""
        owners = self.owners_of(tasks)
        return owners is not None and all(self.knows(owner, commit_number) for owner in owners)

    def is_out_of_date(self, held: ListedTask, tasks: JobsTasks | None, commit_number: int) -> bool:
        """Whether a live container's report from before a commit lists a task that another container owns since."""
        is_live = held.container in self.applied
        if tasks is None or not is_live or self.knows(held.container, commit_number):
            return False
        try:
            return self.assignment.owner_of(tasks, held.number) != held.container
        except LookupError:
            return False

    def knows(self, container: str, commit_number: int) -> bool:
        """Whether a container has applied a commit, or is lost."""
        applied = self.applied.get(container)
        return container in self.lost or (applied is not None and applied >= commit_number)


NO_CONTAINERS_APPLIED = 2**63 - 1


def survey(sightings: Iterable[Sighting], assignment: Assignment, moment: Moment) -> ClusterView:
    """The cluster's view, by what was seen of the containers and by the stored assignment of the same moment."""
    seen = tuple(sightings)
    applied = {sighting.container: _applied(sighting) for sighting in seen if sighting.live}
    known = {container: commit for container, commit in applied.items() if commit is not None}
    alive_at = max((each.alive_at for each in seen if each.live and each.alive_at is not None), default=None)
    late = {each: _heard(each, alive_at, moment) for each in seen if each.container in known}
    owners = {owner for owner in assignment.owners.values() if owner is not None}
    complete = len(known) == len(applied) and {sighting.container for sighting in seen}.issuperset(owners)
    return ClusterView(
        reporting=frozenset(known),
        lost=frozenset(sighting.container for sighting in seen if not sighting.live),
        applied_commit=min(known.values(), default=NO_CONTAINERS_APPLIED) if complete else None,
        applied=applied,
        assignment=assignment,
        silent={each.container: _silence(each, moment) for each, how in late.items() if how is Heard.LOST},
        unheard={each.container: _silence(each, moment) for each, how in late.items() if how is Heard.UNKNOWN},
    )


class _Report(NamedTuple):
    reported_at: datetime
    alive_at: datetime | None
    failed_over: bool = False


def _heard(container: Sighting, alive_at: datetime | None, moment: Moment) -> Heard:
    """What the last report of a live container is worth. `alive_at`: the newest heartbeat of any.

    When the store comes back, some container is the first to report. Heartbeats are then as old as the other reports.
    """
    if container.reported_at is None:
        return Heard.PRESENT
    found = heard(_Report(container.reported_at, container.alive_at), moment)
    others_live = alive_at is not None and alive_at > container.reported_at + SILENT
    return Heard.UNKNOWN if found is Heard.LOST and not others_live else found


def _silence(container: Sighting, moment: Moment) -> float:
    return 0.0 if container.reported_at is None else (moment.now - container.reported_at).total_seconds()


def _applied(sighting: Sighting) -> int | None:
    return sighting.applied_commit if sighting.reported_incarnation == sighting.incarnation else None


def observe_stopped(
    cluster: ClusterView, held: Iterable[ListedTask], commit_number: int, tasks: JobsTasks | None = None
) -> Presence:
    """Whether the tasks that the commit `commit_number` stops are gone.

    `held`: the job's tasks that newest reports list. `tasks`: those that the job may have; None when these are unknown.
    Then every container must have reported since the stop.
    """
    holders = {each.container for each in held if not cluster.is_out_of_date(each, tasks, commit_number)}
    if not holders.isdisjoint(cluster.reporting):
        return Presence.PRESENT
    if not cluster.lost.issuperset(holders):
        return Presence.UNKNOWN
    if cluster.everyone_knows(commit_number):
        return Presence.ABSENT
    if cluster.owners_know(tasks, commit_number):
        return Presence.ABSENT if cluster.assignment.unasked_stop >= commit_number else Presence.UNTOLD
    return Presence.UNKNOWN


def silent_ones(
    cluster: ClusterView, held: Iterable[ListedTask], commit_number: int, tasks: JobsTasks | None
) -> tuple[Silent, ...]:
    """The containers that are silent, and have to say yet that the tasks are gone which a commit stops: they may be
    dead, and it takes a fail-over until they count as lost. The arguments are those of `observe_stopped`."""
    holders = {each.container for each in held if not cluster.is_out_of_date(each, tasks, commit_number)}
    owners = cluster.owners_of(tasks)
    asked = holders | (cluster.silent.keys() if owners is None else owners)
    found = (Silent(name, seconds) for name, seconds in sorted(cluster.silent.items()) if name in asked)
    return tuple(
        each for each in found if each.container in holders or not cluster.knows(each.container, commit_number)
    )
