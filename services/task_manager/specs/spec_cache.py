"""The specs of all jobs of the cell as the Task Service last sent them, indexed by shard. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from itertools import chain, repeat

from penstock.config.model import DesiredState
from penstock.tasks.selectors import in_words, meets, offered, selector
from penstock.tasks.shards import Sharding
from penstock.tasks.spec import TaskSpec, TaskTemplate, expand, task_id
from penstock.wire.cluster import Identity, Snapshot
from services.task_manager.decide.model import DesiredTask

ShardsByJob = Mapping[str, tuple[int | None, ...]]
"""The shard of each task of each job, in order of index; None for a task that no shard contains."""


@dataclass(frozen=True, slots=True)
class SpecCache:
    """Templates by job up to `commit_number`, and the shards of their tasks under `sharding`.

    A stopped job has a template and no shards. `snapshot_shard_count` came with the templates; the authority on the
    number of shards is `sharding`. `_expanded` has the specs of jobs that were asked for, `_former` those of jobs that
    changed since. So the spec of an unchanged task stays the same object, and comparing it costs nothing.
    """

    commit_number: int
    snapshot_shard_count: int
    sharding: Sharding
    templates: Mapping[str, TaskTemplate]
    shards_of_job: ShardsByJob
    jobs_of_shard: Mapping[int, frozenset[str]]
    _expanded: dict[str, tuple[TaskSpec, ...]] = field(default_factory=dict, compare=False)
    _former: Mapping[str, tuple[TaskSpec, ...]] = field(default_factory=dict, compare=False)

    def desired(self, owned: Mapping[int, int], here: Identity) -> dict[str, DesiredTask]:
        """The tasks of owned shards (shard to epoch) by id. Tasks that need another container have a refusal."""
        offers = offered(here.region, here.labels)
        return {
            spec.task_id: DesiredTask(
                spec, shard, epoch, _refusal(spec, here, offers), self.templates[spec.job].commit_number
            )
            for shard, epoch in owned.items()
            for spec in self._of_shard(shard)
        }

    def has_same_tasks(self, other: SpecCache | None, shards: Iterable[int], jobs: Iterable[str]) -> bool:
        """Whether another cache has the same tasks in these shards; `jobs` are all jobs of these shards."""
        if other is None or other.sharding != self.sharding:
            return False
        return all(self.jobs_of_shard.get(shard) == other.jobs_of_shard.get(shard) for shard in shards) and all(
            self.templates.get(job) is other.templates.get(job) for job in jobs
        )

    def tasks_of(self, shard: int) -> tuple[str, ...]:
        """The ids of a shard's tasks, in order of job and index."""
        return tuple(spec.task_id for spec in self._of_shard(shard))

    def snapshot(self) -> Snapshot:
        """All templates as a full snapshot, the form that is stored on disk."""
        return Snapshot(
            full=True,
            commit_number=self.commit_number,
            shard_count=self.snapshot_shard_count,
            templates=tuple(self.templates.values()),
        )

    def with_sharding(self, sharding: Sharding | None) -> SpecCache:
        """The same templates under another sharding; None leaves the sharding as it is."""
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


def updated(known: SpecCache | None, snapshot: Snapshot, sharding: Sharding | None = None) -> SpecCache:
    """The cache after a snapshot; what is unchanged is carried over from the `known` cache.

    A snapshot that is older than the known cache changes nothing (a Task Service may be behind another one).
    `sharding` is that of the container's shards. While it is None, the number of shards in the snapshot is used.
    Raises ValueError for a delta without a known cache.
    """
    if known is None and not snapshot.full:
        raise ValueError("a delta needs a full snapshot before it")
    if known is not None and snapshot.commit_number < known.commit_number:
        return known
    templates = _templates(known, snapshot)
    sharding = sharding or (known.sharding if known is not None else Sharding(snapshot.shard_count))
    return _build(known, snapshot, sharding, templates)


def stops_jobs(known: SpecCache | None, fresh: SpecCache) -> bool:
    """Whether a job that had tasks has none in the fresh cache."""
    if known is None or known.shards_of_job is fresh.shards_of_job:
        return False
    return any(shards and not fresh.shards_of_job.get(job) for job, shards in known.shards_of_job.items())


def _templates(known: SpecCache | None, snapshot: Snapshot) -> dict[str, TaskTemplate]:
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
    """The old spec when nothing differs. JSON is compared too, since Python takes 1, 1.0 and True for equal."""
    is_same = old is not None and old == new and old.model_dump_json() == new.model_dump_json()
    return old if old is not None and is_same else new


def _build(
    known: SpecCache | None, source: Snapshot | SpecCache, sharding: Sharding, templates: dict[str, TaskTemplate]
) -> SpecCache:
    """Only jobs that changed since the known cache are computed anew."""
    before = known.templates if known is not None else {}
    changed = {job for job, template in templates.items() if before.get(job) is not template}
    gone = before.keys() - templates.keys()
    expanded, former = ({}, {}) if known is None else _carried_over(known, changed, gone)
    placed: ShardsByJob
    if known is None or known.sharding != sharding:
        placed = {job: _shards(template, sharding) for job, template in templates.items()}
        jobs_of_shard = _jobs_of_shards({}, {}, placed)
    else:
        placed, moved = _with_changes(known, {job: _shards(templates[job], sharding) for job in changed}, gone)
        jobs_of_shard = _jobs_of_shards(known.jobs_of_shard, known.shards_of_job, moved)
    count = source.shard_count if isinstance(source, Snapshot) else source.snapshot_shard_count
    return SpecCache(source.commit_number, count, sharding, templates, placed, jobs_of_shard, expanded, former)


def _carried_over(
    known: SpecCache, changed: AbstractSet[str], gone: AbstractSet[str]
) -> tuple[dict[str, tuple[TaskSpec, ...]], ...]:
    """The expanded specs of unchanged jobs, and the newest specs of changed ones. Jobs that are gone leave nothing."""
    expanded = {job: specs for job, specs in known._expanded.items() if job not in changed and job not in gone}
    latest = {**known._former, **known._expanded}
    return expanded, {job: specs for job, specs in latest.items() if job not in expanded and job not in gone}


def _with_changes(known: SpecCache, fresh: ShardsByJob, gone: AbstractSet[str]) -> tuple[ShardsByJob, ShardsByJob]:
    """The shards of all jobs, and of the jobs whose shards changed. The first is the known map when none changed."""
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


def _jobs_of_shards(
    known: Mapping[int, frozenset[str]],
    before: ShardsByJob,
    moved: ShardsByJob,
) -> Mapping[int, frozenset[str]]:
    """The jobs of each shard after some jobs moved; the entries of other shards stay."""
    if not moved:
        return known
    jobs: dict[int, set[str]] = {}
    for job, shards in moved.items():
        for shard in {shard for shard in (*before.get(job, ()), *shards) if shard is not None}:
            names = jobs.setdefault(shard, set(known.get(shard, ())))
            (names.add if shard in shards else names.discard)(job)
    fresh = {shard: frozenset(names) for shard, names in jobs.items()}
    return {shard: names for shard, names in {**known, **fresh}.items() if names}
