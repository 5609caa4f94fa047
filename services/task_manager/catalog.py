"""All jobs of the cell, as the Task Service last told them, and which tasks are in which shard. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from penstock.config.model import DesiredState
from penstock.tasks.shards import shard_of
from penstock.tasks.spec import TaskSpec, TaskTemplate, expand, task_id
from penstock.wire.cluster import Snapshot
from services.task_manager.model import WantedTask
from services.task_manager.views import Identity


@dataclass(frozen=True, slots=True)
class Catalog:
    """Templates by job, up to `commit_number`, and the shard of each of their tasks, by job and index.

    A stopped job has a template and no shards. `_expanded` keeps the specs of jobs that were asked for, so that an
    unchanged task's spec stays the same object and costs one comparison.
    """

    commit_number: int
    shard_count: int
    templates: Mapping[str, TaskTemplate]
    shards_of_job: Mapping[str, tuple[int, ...]]
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
        templates = tuple(self.templates.values())
        return Snapshot(full=True, commit_number=self.commit_number, shard_count=self.shard_count, templates=templates)

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


def updated(known: Catalog | None, snapshot: Snapshot) -> Catalog:
    """The catalog after a snapshot; a delta needs a `known` catalog, whose caches are carried over.

    A full snapshot that is older than what is known (from a Task Service with an older cache) changes nothing.
    Raises ValueError for a delta without a catalog.
    """
    if known is None and not snapshot.full:
        raise ValueError("a delta needs a full snapshot before it")
    if known is not None and snapshot.commit_number < known.commit_number:
        return known
    templates = _templates(known, snapshot)
    same_shards = known is not None and known.shard_count == snapshot.shard_count
    return _build(known if same_shards else None, snapshot, templates)


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


def _build(known: Catalog | None, snapshot: Snapshot, templates: dict[str, TaskTemplate]) -> Catalog:
    unchanged = {job for job, template in templates.items() if known and known.templates.get(job) is template}
    shards = {
        job: known.shards_of_job[job] if known and job in unchanged else _shards(template, snapshot.shard_count)
        for job, template in templates.items()
    }
    expanded = {job: specs for job, specs in known._expanded.items() if job in unchanged} if known else {}
    return Catalog(
        snapshot.commit_number, snapshot.shard_count, templates, shards, _jobs_of_shard(shards.items()), expanded
    )


def _shards(template: TaskTemplate, shard_count: int) -> tuple[int, ...]:
    if template.config.desired_state is DesiredState.STOPPED:
        return ()
    return tuple(shard_of(task_id(template.job, index), shard_count) for index in range(template.config.task_count))


def _jobs_of_shard(shards: Iterable[tuple[str, tuple[int, ...]]]) -> dict[int, frozenset[str]]:
    jobs: dict[int, set[str]] = {}
    for job, placed in shards:
        for shard in placed:
            jobs.setdefault(shard, set()).add(job)
    return {shard: frozenset(names) for shard, names in jobs.items()}
