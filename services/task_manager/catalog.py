"""All jobs of the cell, as the Task Service last told them, and which tasks are in which shard. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from penstock.config.model import DesiredState
from penstock.tasks.shards import Sharding
from penstock.tasks.spec import TaskSpec, TaskTemplate, expand, task_id
from penstock.wire.cluster import Snapshot
from services.task_manager.model import WantedTask
from services.task_manager.views import Identity


@dataclass(frozen=True, slots=True)
class Catalog:
    """Templates by job, up to `commit_number`, and by job and index the shard of each of their tasks.

    A stopped job has a template and no shards; the shard of a task that runs nowhere under `sharding` is None.
    `told_shard_count` came with the templates, and is no more than a guess. `_expanded` keeps the specs of jobs that
    were asked for, so that an unchanged task's spec stays the same object and costs one comparison.
    """

    commit_number: int
    told_shard_count: int
    sharding: Sharding
    templates: Mapping[str, TaskTemplate]
    shards_of_job: Mapping[str, tuple[int | None, ...]]
    jobs_of_shard: Mapping[int, frozenset[str]]
    _expanded: dict[str, tuple[TaskSpec, ...]] = field(default_factory=dict, compare=False)

    def wanted(self, owned: Mapping[int, int], here: Identity) -> dict[str, WantedTask]:
        """The tasks of owned shards (shard to epoch), by task id; those that ask for another region are refused."""
        tasks = (task for shard, epoch in owned.items() for task in self._of_shard(shard, epoch))
        return {task.spec.task_id: replace(task, refusal=_refusal(task.spec, here)) for task in tasks}

    def tasks_of(self, shard: int) -> tuple[str, ...]:
        """The ids of a shard's tasks, in order of job and index."""
        return tuple(task.spec.task_id for task in self._of_shard(shard, 0))

    def snapshot(self) -> Snapshot:
        """All of it in the form it travels and is stored."""
        return Snapshot(
            full=True,
            commit_number=self.commit_number,
            shard_count=self.told_shard_count,
            templates=tuple(self.templates.values()),
        )

    def under(self, sharding: Sharding | None) -> Catalog:
        """The same with the shards of another sharding; as it is, when nobody said which."""
        if sharding in (None, self.sharding):
            return self
        return _build(self, self, sharding, dict(self.templates))

    def _of_shard(self, shard: int, epoch: int) -> Iterator[WantedTask]:
        for job in sorted(self.jobs_of_shard.get(shard, ())):
            for spec, placed in zip(self._specs(job), self.shards_of_job[job], strict=True):
                if placed == shard:
                    yield WantedTask(spec, shard, epoch)

    def _specs(self, job: str) -> tuple[TaskSpec, ...]:
        if job not in self._expanded:
            self._expanded[job] = expand(self.templates[job])
        return self._expanded[job]


def _refusal(spec: TaskSpec, here: Identity) -> str | None:
    asked = spec.config.region
    if asked is None or asked == here.region:
        return None
    return f"no: container {here.container} is in region {here.region}, the job asks for region {asked}"


def updated(known: Catalog | None, snapshot: Snapshot, sharding: Sharding | None = None) -> Catalog:
    """The catalog after a snapshot; a delta needs a `known` catalog, whose caches are carried over.

    A full snapshot that is older than what is known (from a Task Service with an older cache) changes nothing.
    `sharding` is that of the container's shards; None: nobody said yet, and the snapshot's count is a good guess.
    Raises ValueError for a delta without a catalog.
    """
    if known is None and not snapshot.full:
        raise ValueError("a delta needs a full snapshot before it")
    if known is not None and snapshot.commit_number < known.commit_number:
        return known
    templates = _templates(known, snapshot)
    sharding = sharding or (known.sharding if known is not None else Sharding(snapshot.shard_count))
    return _build(known, snapshot, sharding, templates)


def stops_jobs(known: Catalog | None, fresh: Catalog) -> bool:
    """Whether a job that was to run is to stop."""
    before = {} if known is None else known.shards_of_job
    return any(shards and not fresh.shards_of_job.get(job) for job, shards in before.items())


def _templates(known: Catalog | None, snapshot: Snapshot) -> dict[str, TaskTemplate]:
    fresh = {template.job: template for template in snapshot.templates}
    old = known.templates if known is not None else {}
    if snapshot.full:
        kept = {job: old[job] for job in snapshot.unreadable if job in old}
        return kept | {job: _same_if_equal(old.get(job), template) for job, template in fresh.items()}
    merged = {**old, **fresh}
    return {job: template for job, template in merged.items() if job not in snapshot.removed}


def _same_if_equal(old: TaskTemplate | None, new: TaskTemplate) -> TaskTemplate:
    return old if old is not None and old.commit_number == new.commit_number else new


def _build(
    known: Catalog | None, told: Snapshot | Catalog, sharding: Sharding, templates: dict[str, TaskTemplate]
) -> Catalog:
    unchanged = {job for job, template in templates.items() if known and known.templates.get(job) is template}
    placed = unchanged if known and known.sharding == sharding else set()
    shards = {
        job: known.shards_of_job[job] if known and job in placed else _shards(template, sharding)
        for job, template in templates.items()
    }
    expanded = {job: specs for job, specs in known._expanded.items() if job in unchanged} if known else {}
    count = told.shard_count if isinstance(told, Snapshot) else told.told_shard_count
    return Catalog(told.commit_number, count, sharding, templates, shards, _jobs_of_shard(shards.items()), expanded)


def _shards(template: TaskTemplate, sharding: Sharding) -> tuple[int | None, ...]:
    config = template.config
    if config.desired_state is DesiredState.STOPPED:
        return ()
    return tuple(sharding.shard_of(task_id(template.job, index), config.region) for index in range(config.task_count))


def _jobs_of_shard(shards: Iterable[tuple[str, tuple[int | None, ...]]]) -> dict[int, frozenset[str]]:
    jobs: dict[int, set[str]] = {}
    for job, placed in shards:
        for shard in placed:
            if shard is not None:
                jobs.setdefault(shard, set()).add(job)
    return {shard: frozenset(names) for shard, names in jobs.items()}
