"""All jobs of the cell, as the Task Service last told them, and which tasks are in which shard. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from itertools import chain, repeat

from penstock.config.model import DesiredState
from penstock.tasks.selectors import in_words, meets, offered, selector
from penstock.tasks.shards import Sharding
from penstock.tasks.spec import TaskSpec, TaskTemplate, expand, task_id
from penstock.wire.cluster import Snapshot
from services.task_manager.model import WantedTask
from services.task_manager.views import Identity

Placed = Mapping[str, tuple[int | None, ...]]
"""The shard of each task of jobs, in order of index; None for a task that runs nowhere."""


@dataclass(frozen=True, slots=True)
class Catalog:
    """Templates by job, up to `commit_number`, and by job and index the shard of each of their tasks.

    A stopped job has a template and no shards; the shard of a task that runs nowhere under `sharding` is None.
    `told_shard_count` came with the templates, and is no more than a guess. `_expanded` keeps the specs of jobs that
    were asked for and `_former` those of changed ones, so that an unchanged task's spec stays the same object and
    costs one comparison.
    """

    commit_number: int
    told_shard_count: int
    sharding: Sharding
    templates: Mapping[str, TaskTemplate]
    shards_of_job: Placed
    jobs_of_shard: Mapping[int, frozenset[str]]
    _expanded: dict[str, tuple[TaskSpec, ...]] = field(default_factory=dict, compare=False)
    _former: Mapping[str, tuple[TaskSpec, ...]] = field(default_factory=dict, compare=False)

    def wanted(self, owned: Mapping[int, int], here: Identity) -> dict[str, WantedTask]:
        """The tasks of owned shards (shard to epoch), by task id; those that ask for other containers are refused."""
        offers = offered(here.region, here.labels)
        return {
            spec.task_id: WantedTask(spec, shard, epoch, _refusal(spec, here, offers))
            for shard, epoch in owned.items()
            for spec in self._of_shard(shard)
        }

    def asks_the_same(self, other: Catalog | None, shards: Iterable[int], jobs: Iterable[str]) -> bool:
        """Whether another catalog has the same tasks in these shards, of which these are all the jobs."""
        if other is None or other.sharding != self.sharding:
            return False
        return all(self.jobs_of_shard.get(shard) == other.jobs_of_shard.get(shard) for shard in shards) and all(
            self.templates.get(job) is other.templates.get(job) for job in jobs
        )

    def tasks_of(self, shard: int) -> tuple[str, ...]:
        """The ids of a shard's tasks, in order of job and index."""
        return tuple(spec.task_id for spec in self._of_shard(shard))

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

    def _of_shard(self, shard: int) -> Iterator[TaskSpec]:
        for job in sorted(self.jobs_of_shard.get(shard, ())):
            for spec, placed in zip(self._specs(job), self.shards_of_job[job], strict=True):
                if placed == shard:
                    yield spec

    def _specs(self, job: str) -> tuple[TaskSpec, ...]:
        if job not in self._expanded:
            fresh, former = expand(self.templates[job]), self._former.get(job, ())
            self._expanded[job] = tuple(map(_same_spec, fresh, chain(former, repeat(None))))
        return self._expanded[job]


def _refusal(spec: TaskSpec, here: Identity, offers: frozenset[str]) -> str | None:
    asked = selector(spec.config.region, spec.config.container_labels)
    if asked is None or meets(offers, asked):
        return None
    has = in_words(str(selector(here.region, here.labels)))
    return f"no: container {here.container} has {has}, the job asks for {in_words(asked)}"


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
    if known is None or known.shards_of_job is fresh.shards_of_job:
        return False
    return any(shards and not fresh.shards_of_job.get(job) for job, shards in known.shards_of_job.items())


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


def _same_spec(new: TaskSpec, old: TaskSpec | None) -> TaskSpec:
    """The old one where nothing differs. Python holds 1, 1.0 and True equal; JSON does not."""
    is_same = old is not None and old == new and old.model_dump_json() == new.model_dump_json()
    return old if old is not None and is_same else new


def _build(
    known: Catalog | None, told: Snapshot | Catalog, sharding: Sharding, templates: dict[str, TaskTemplate]
) -> Catalog:
    """Of what is known only the jobs that changed cost anything."""
    before = known.templates if known is not None else {}
    changed = {job for job, template in templates.items() if before.get(job) is not template}
    gone = before.keys() - templates.keys()
    expanded, former = ({}, {}) if known is None else _carried_over(known, changed, gone)
    placed: Placed
    if known is None or known.sharding != sharding:
        placed = {job: _shards(template, sharding) for job, template in templates.items()}
        jobs_of_shard = _moved({}, {}, placed)
    else:
        placed, moved = _placed(known, {job: _shards(templates[job], sharding) for job in changed}, gone)
        jobs_of_shard = _moved(known.jobs_of_shard, known.shards_of_job, moved)
    count = told.shard_count if isinstance(told, Snapshot) else told.told_shard_count
    return Catalog(told.commit_number, count, sharding, templates, placed, jobs_of_shard, expanded, former)


def _carried_over(
    known: Catalog, changed: AbstractSet[str], gone: AbstractSet[str]
) -> tuple[dict[str, tuple[TaskSpec, ...]], ...]:
    """The specs that are still good, and those that may be in part: the newest of each job that is not among the
    former. Nothing is kept of jobs that are gone."""
    expanded = {job: specs for job, specs in known._expanded.items() if job not in changed and job not in gone}
    held = {**known._former, **known._expanded}
    return expanded, {job: specs for job, specs in held.items() if job not in expanded and job not in gone}


def _placed(known: Catalog, fresh: Placed, gone: AbstractSet[str]) -> tuple[Placed, Placed]:
    """The shards of all jobs, the very same map when none differ; and those of the jobs that moved."""
    before = known.shards_of_job
    after = {**dict.fromkeys(gone, ()), **fresh}
    moved = {job: shards for job, shards in after.items() if before.get(job, ()) != shards}
    if not moved and not gone and before.keys() >= fresh.keys():
        return before, moved
    kept = {job: shards for job, shards in before.items() if job not in gone}
    return {**kept, **fresh}, moved


def _shards(template: TaskTemplate, sharding: Sharding) -> tuple[int | None, ...]:
    config = template.config
    if config.desired_state is DesiredState.STOPPED:
        return ()
    asked = selector(config.region, config.container_labels)
    return tuple(sharding.shard_of(task_id(template.job, index), asked) for index in range(config.task_count))


def _moved(
    known: Mapping[int, frozenset[str]],
    before: Placed,
    moved: Placed,
) -> Mapping[int, frozenset[str]]:
    """The jobs of each shard, once those that moved are where that says; all others stay."""
    if not moved:
        return known
    jobs: dict[int, set[str]] = {}
    for job, shards in moved.items():
        for shard in {shard for shard in (*before.get(job, ()), *shards) if shard is not None}:
            names = jobs.setdefault(shard, set(known.get(shard, ())))
            (names.add if shard in shards else names.discard)(job)
    fresh = {shard: frozenset(names) for shard, names in jobs.items()}
    return {shard: names for shard, names in {**known, **fresh}.items() if names}
