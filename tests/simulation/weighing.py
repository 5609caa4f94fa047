"""What a leader knew when it placed shards, weighed in plain arithmetic: nothing of the real code's is used for it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import isfinite
from statistics import fmean

from penstock.tasks.dimensions import DIMENSIONS, NAMES
from penstock.tasks.loads import JobTasks, TaskLoad
from penstock.tasks.ownership import DRAINING, OPEN, Member
from penstock.tasks.shards import Sharding
from penstock.tasks.spec import task_id

HEADROOM, BAND = 0.1, 0.1
IDLE_SHARE = 0.05
WITHOUT_LIMIT = 1e15
ROUNDING = 1e-6

Amounts = dict[str, float]


@dataclass(frozen=True)
class Knowledge:
    """`members`: live containers; `present`: where shards are, or are on their way to."""

    members: Mapping[str, Member]
    jobs: tuple[JobTasks, ...]
    told: tuple[TaskLoad, ...]
    sharding: Sharding
    present: Mapping[int, str]

    @cached_property
    def usable(self) -> dict[str, Amounts]:
        """Capacity less headroom. All containers of the simulation tell the same dimensions."""
        return {
            name: {each: member.capacity().get(each, WITHOUT_LIMIT) * (1 - HEADROOM) for each in NAMES}
            for name, member in self.members.items()
        }

    @cached_property
    def loads(self) -> dict[int, Amounts]:
        """What each shard uses: its tasks together, and never less than its part of a twentieth of the cell."""
        used: dict[int, Amounts] = {shard: dict.fromkeys(NAMES, 0.0) for shard in range(self.sharding.count)}
        tasks = self._tasks()
        for job, index, shard in self._places():
            for name in NAMES:
                used[shard][name] += tasks[job.job, index][name]
        least = self._idle()
        return {shard: {name: max(load[name], least[name]) for name in NAMES} for shard, load in used.items()}

    def asking(self, shard: int) -> list[JobTasks]:
        """The jobs with a selector that have tasks in a shard."""
        return self._asking.get(shard, [])

    def bound_to(self, shard: int) -> frozenset[str]:
        """The selectors that it may go by, one but for ties: that of the most important job that can have its own."""
        possible = [job for job in self.asking(shard) if self._can_have(str(job.selector), shard)]
        most = max((job.priority for job in possible), default=0)
        return frozenset(str(job.selector) for job in possible if job.priority == most)

    def in_vain(self) -> Iterator[str]:
        """Jobs some of whose tasks ask for what no open container has, nor the one that has their shard."""
        for shard, jobs in self._asking.items():
            yield from (job.job for job in jobs if not self._can_have(str(job.selector), shard))

    def may_be_on(self, shard: int, container: str) -> bool:
        """Whether a live container has what the shard is bound to."""
        bound = self.bound_to(shard)
        return not bound or any(self._has(container, selector) for selector in bound)

    def may_stay(self, shard: int) -> bool:
        """Whether nothing but loads can ask for its move."""
        name = self.present.get(shard, "")
        member = self.members.get(name)
        return member is not None and member.availability != DRAINING and self.may_be_on(shard, name)

    def present_here(self) -> dict[int, str]:
        """Where shards are, without those of containers that are gone."""
        return {shard: name for shard, name in self.present.items() if name in self.members}

    def fullest(self, where: Mapping[int, str]) -> float:
        """The largest share of what a container offers that is taken, in any dimension."""
        totals = self.totals(where)
        return max((totals[name][each] / self.usable[name][each] for name in totals for each in NAMES), default=0.0)

    def totals(self, where: Mapping[int, str]) -> dict[str, Amounts]:
        """The load of each container."""
        found = {name: dict.fromkeys(NAMES, 0.0) for name in self.members}
        for shard, container in where.items():
            for name in NAMES:
                found[container][name] += self.loads[shard][name]
        return found

    def overfull(self, where: Mapping[int, str]) -> dict[str, str]:
        """Containers above their capacity less headroom, with the dimension."""
        return {
            container: name
            for container, total in self.totals(where).items()
            for name in NAMES
            if total[name] > self.usable[container][name] * (1 + ROUNDING)
        }

    def tiers(self) -> list[list[str]]:
        """Open containers that may take the same shards."""
        bound = sorted({selector for shard in self._asking for selector in self.bound_to(shard)})
        found: dict[tuple[bool, ...], list[str]] = {}
        for name in sorted(self._open):
            found.setdefault(tuple(self._has(name, selector) for selector in bound), []).append(name)
        return list(found.values())

    # ---- parts

    def _places(self) -> Iterator[tuple[JobTasks, int, int]]:
        for job in self.jobs:
            for index in range(job.task_count):
                shard = self.sharding.shard_of(task_id(job.job, index), job.selector)
                if shard is not None:
                    yield job, index, shard

    @cached_property
    def _asking(self) -> dict[int, list[JobTasks]]:
        found: dict[int, dict[str, JobTasks]] = {}
        for job, _, shard in self._places():
            if job.selector is not None:
                found.setdefault(shard, {})[job.job] = job
        return {shard: list(jobs.values()) for shard, jobs in found.items()}

    @cached_property
    def _open(self) -> list[str]:
        return [name for name, member in self.members.items() if member.availability == OPEN]

    def _can_have(self, selector: str, shard: int) -> bool:
        return any(self._has(name, selector) for name in (*self._open, self.present.get(shard, "")))

    def _has(self, name: str, selector: str) -> bool:
        """Whether a container is live and has all that is asked for: a region, labels as `name=value`, or both."""
        if (name, selector) not in self._known:
            member, asked = self.members.get(name), set(selector.split(","))
            labels = {} if member is None else member.labels
            has = set() if member is None else {member.region, *map("=".join, labels.items())}
            self._known[name, selector] = asked <= has
        return self._known[name, selector]

    @cached_property
    def _known(self) -> dict[tuple[str, str], bool]:
        return {}

    def _tasks(self) -> dict[tuple[str, int], Amounts]:
        jobs = {job.job: job for job in self.jobs if job.selector in (None, *self.sharding.selectors)}
        known: dict[tuple[str, int], Amounts] = {}
        for name, number, generation, load in self.told:
            job = jobs.get(name)
            if job is not None and number < job.task_count and generation == job.generation:
                known[name, number] = {each: value for each, value in load.items() if isfinite(value) and value >= 0}
        tasks: dict[tuple[str, int], Amounts] = {
            (name, index): {} for name, job in jobs.items() for index in range(job.task_count)
        }
        for dimension in DIMENSIONS:
            measured = {task: load[dimension.name] for task, load in known.items() if dimension.name in load}
            usual = fmean(measured.values()) if measured else dimension.assumed
            of_job: dict[str, list[float]] = {}
            for (name, _), value in measured.items():
                of_job.setdefault(name, []).append(value)
            mean_of_job = {name: fmean(values) for name, values in of_job.items()}
            for (name, index), amounts in tasks.items():
                estimate = mean_of_job.get(name, jobs[name].reserved.get(dimension.name, usual))
                amounts[dimension.name] = measured.get((name, index), estimate)
        return tasks

    def _idle(self) -> Amounts:
        assumed = {dimension.name: dimension.assumed for dimension in DIMENSIONS}
        found = {}
        for name in NAMES:
            offered = sum(each.capacity().get(name, WITHOUT_LIMIT) for each in self.members.values())
            even = offered / max(self.sharding.count, 1) if offered < WITHOUT_LIMIT else assumed[name]
            found[name] = IDLE_SHARE * even
        return found


def deviations(knowledge: Knowledge, where: Mapping[int, str], tier: Iterable[str]) -> dict[str, Amounts]:
    """How far each container of a tier is from an even share of the tier's load, by dimension: 0.1 is 10 % above."""
    names, totals = list(tier), knowledge.totals(where)
    found: dict[str, Amounts] = {name: {} for name in names}
    for dimension in NAMES:
        level = sum(totals[name][dimension] for name in names) / sum(
            knowledge.usable[name][dimension] for name in names
        )
        for name in names:
            even = knowledge.usable[name][dimension] * level
            found[name][dimension] = totals[name][dimension] / even - 1 if even > 0 else 0.0
    return found
