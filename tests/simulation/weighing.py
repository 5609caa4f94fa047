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
        """The jobs with a region that have tasks in a shard."""
        return self._asking.get(shard, [])

    def bound_to(self, shard: int) -> frozenset[str]:
        """The regions that it may go to, one but for ties: that of the most important job that can have its own."""
        possible = [job for job in self.asking(shard) if self._can_have(job.region, shard)]
        most = max((job.priority for job in possible), default=0)
        return frozenset(str(job.region) for job in possible if job.priority == most)

    def in_vain(self) -> Iterator[str]:
        """Jobs some of whose tasks ask for a region where there is no open container and where their shard is not."""
        for shard, jobs in self._asking.items():
            yield from (job.job for job in jobs if not self._can_have(job.region, shard))

    def may_stay(self, shard: int) -> bool:
        """Whether nothing but loads can ask for its move."""
        member = self.members.get(self.present.get(shard, ""))
        regions = self.bound_to(shard)
        return member is not None and member.availability != DRAINING and (not regions or member.region in regions)

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
        by_region = any(self.bound_to(shard) for shard in self._asking)
        found: dict[str, list[str]] = {}
        for name, member in sorted(self.members.items()):
            if member.availability == OPEN:
                found.setdefault(member.region if by_region else "", []).append(name)
        return list(found.values())

    # ---- parts

    def _places(self) -> Iterator[tuple[JobTasks, int, int]]:
        for job in self.jobs:
            for index in range(job.task_count):
                shard = self.sharding.shard_of(task_id(job.job, index), job.region)
                if shard is not None:
                    yield job, index, shard

    @cached_property
    def _asking(self) -> dict[int, list[JobTasks]]:
        found: dict[int, dict[str, JobTasks]] = {}
        for job, _, shard in self._places():
            if job.region is not None:
                found.setdefault(shard, {})[job.job] = job
        return {shard: list(jobs.values()) for shard, jobs in found.items()}

    @cached_property
    def _open_regions(self) -> frozenset[str]:
        return frozenset(each.region for each in self.members.values() if each.availability == OPEN)

    def _can_have(self, region: str | None, shard: int) -> bool:
        member = self.members.get(self.present.get(shard, ""))
        return region in self._open_regions or (member is not None and member.region == region)

    def _tasks(self) -> dict[tuple[str, int], Amounts]:
        jobs = {job.job: job for job in self.jobs if job.region is None or job.region in self.sharding.regions}
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
