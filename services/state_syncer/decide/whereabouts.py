"""Do all tasks of a job run? What is not known does not count as running. Pure.

A task that was lost or crashed starts again by itself: where its shard is, or in the container that gets the shard. A
rescale waits for it. Otherwise what the task left would be finished by a job that is stopped, in a host that has yet
to start.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from penstock.model.reports import TaskState
from services.state_syncer.decide.observe import ClusterView, JobsTasks, Silent, Unheard

AWAITED_CRASHES = 3
"""A task that crashed fewer times in a row starts again within seconds."""
_MOST_TOLD = 3


class ReportedTask(NamedTuple):
    """What the newest report of `container` says of a task.

    `quiesced`: its batch is done and it reads nothing more, by the order to `level_ms`. `watermark_ms`: after that
    batch, 0 without one; None when the task cannot be levelled while it runs. `caught_up`: as
    `TaskProgress` has it. `rows_per_second`: while its batches ran. `crashes`: in a row. `is_silent`: its Spark host
    says nothing any more. `level_records`: how many it reads on in all to come to the level.
    """

    container: str
    number: int
    state: TaskState
    quiesced: bool = False
    level_ms: int | None = None
    watermark_ms: int | None = None
    caught_up: bool = False
    backlog_records: int | None = None
    crashes: int = 0
    rows_per_second: float | None = None
    is_silent: bool = False
    level_records: int | None = None


class Missing(NamedTuple):
    """A task that no live container reports. `owner`: the container that has its shard."""

    number: int
    owner: str | None = None

    def __str__(self) -> str:
        owner = "and no container has its shard" if self.owner is None else f"which {self.owner} is to run"
        return f"no container reports task {self.number}, {owner}"


class Changing(NamedTuple):
    """A task that starts or stops."""

    number: int
    container: str
    state: TaskState

    def __str__(self) -> str:
        return f"task {self.number} is {self.state.value} on {self.container}"


class Whereabouts(NamedTuple):
    """The tasks of a job that are not known to run and are expected to run soon. `silent`, `unheard`: containers that
    have tasks of the job, or are to have. `crashed`: numbers of tasks."""

    missing: tuple[Missing, ...] = ()
    silent: tuple[Silent, ...] = ()
    changing: tuple[Changing, ...] = ()
    crashed: tuple[int, ...] = ()
    unheard: tuple[Unheard, ...] = ()

    @property
    def all_run(self) -> bool:
        """Whether no task has to be waited for."""
        return not any(self)

    @property
    def are_lost(self) -> bool:
        """Whether tasks are gone, or may be, so that it may take a fail-over until they run."""
        return bool(self.missing or self.silent)

    @property
    def are_only_unheard(self) -> bool:
        """Whether all that is awaited is reports which do not arrive."""
        return not any(self._replace(unheard=()))

    def __str__(self) -> str:
        crashed = [f"task {number} has crashed and is awaited" for number in self.crashed]
        return "; ".join(
            told
            for group in (self.silent, self.unheard, self.missing, self.changing, crashed)
            for told in _some(map(str, group))
        )


ALL_RUN = Whereabouts()


def whereabouts(cluster: ClusterView, reported: Collection[ReportedTask], of: JobsTasks | None) -> Whereabouts:
    """Where the tasks `of` a job are; None when these are unknown. `reported`: those that any newest report lists."""
    present = [task for task in reported if task.container in cluster.reporting]
    return Whereabouts(
        tuple(_missing(cluster, {task.number for task in present}, of)),
        tuple(Silent(*each) for each in _late(cluster, cluster.silent, present, of)),
        tuple(sorted(_changing(present))),
        tuple(sorted(task.number for task in present if _comes_back(task))),
        tuple(Unheard(*each) for each in _late(cluster, cluster.unheard, present, of)),
    )


def _missing(cluster: ClusterView, present: Collection[int], of: JobsTasks | None) -> Iterator[Missing]:
    if of is not None:
        numbers = (number for number in range(of.task_count) if number not in present)
        yield from (Missing(number, _owner(cluster, of, number)) for number in numbers)


def _owner(cluster: ClusterView, of: JobsTasks, number: int) -> str | None:
    try:
        return cluster.assignment.owner_of(of, number)
    except LookupError:
        return None


def _late(
    cluster: ClusterView, late: Mapping[str, float], present: Iterable[ReportedTask], of: JobsTasks | None
) -> Iterator[tuple[str, float]]:
    """Those of the containers `late` that have tasks of the job, or are to have."""
    owners = cluster.owners_of(of)
    asked = late.keys() if owners is None else owners | {task.container for task in present}
    yield from ((name, seconds) for name, seconds in sorted(late.items()) if name in asked)


def _changing(present: Iterable[ReportedTask]) -> Iterator[Changing]:
    for task in present:
        if task.state in (TaskState.STARTING, TaskState.STOPPING):
            yield Changing(task.number, task.container, task.state)


def _comes_back(task: ReportedTask) -> bool:
    return task.state is TaskState.CRASHED and task.crashes < AWAITED_CRASHES


def _some(told: Iterable[str]) -> Iterator[str]:
    """The first few: a job may have thousands of tasks."""
    everything = list(told)
    yield from everything[:_MOST_TOLD]
    if len(everything) > _MOST_TOLD:
        yield f"and {len(everything) - _MOST_TOLD} more like this"
