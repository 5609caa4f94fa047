"""The specs of all jobs of the cell as the Task Service last sent them, indexed by shard. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, repeat

from penstock.config.model import DesiredState
from penstock.tasks.selectors import in_words, meets, offered, selector
from penstock.tasks.shards import Sharding
from penstock.tasks.spec import TaskSpec, TaskTemplate, expand, task_id
from penstock.wire.cluster import Identity, Snapshot
from services.task_manager.decide.model import DesiredTask


@dataclass(frozen=True)
class PlacedJob:
    """A job's template, and the shard of each of its tasks in order of index; none when it is stopped.

    A task that no shard contains has the shard None. `former`: the specs of an earlier
    template, so that unchanged tasks keep their object.
    """

    template: TaskTemplate
    shards: tuple[int | None, ...]
    former: tuple[TaskSpec, ...] = field(default=(), compare=False, repr=False)

    @cached_property
    def specs(self) -> tuple[TaskSpec, ...]:
        """Expanded when first asked for. An unchanged task keeps its former object: comparing it then costs nothing."""
        return tuple(map(_same_spec, expand(self.template), chain(self.former, repeat(None))))

    def latest_specs(self) -> tuple[TaskSpec, ...]:
        """The expanded specs if there are any, else the former ones."""
        latest: tuple[TaskSpec, ...] = vars(self).get("specs", self.former)
        return latest


@dataclass(frozen=True, slots=True)
class SpecCache:
    """The jobs of the cell up to `commit_number`, under the sharding of the container's shards."""

    commit_number: int
    sharding: Sharding
    jobs: Mapping[str, PlacedJob]
    _jobs_of_shard: Mapping[int, set[str]] = field(compare=False)

    def desired(self, owned: Mapping[int, int], here: Identity) -> dict[str, DesiredTask]:
        """The tasks of owned shards (shard to epoch) by id. Tasks that need another container have a refusal."""
        offers = offered(here.region, here.labels)
        return {
            spec.task_id: DesiredTask(
                spec, shard, epoch, _refusal(spec, here, offers), self.jobs[spec.job].template.commit_number
            )
            for shard, epoch in owned.items()
            for spec in self._of_shard(shard)
        }

    def tasks_of(self, shard: int) -> tuple[str, ...]:
        """The ids of a shard's tasks, in order of job and index."""
        return tuple(spec.task_id for spec in self._of_shard(shard))

    def with_sharding(self, sharding: Sharding | None) -> SpecCache:
        """The same templates under another sharding; None leaves the sharding as it is."""
        if sharding in (None, self.sharding):
            return self
        templates = {name: job.template for name, job in self.jobs.items()}
        return _build(self, self.commit_number, sharding, templates)

    def _of_shard(self, shard: int) -> Iterator[TaskSpec]:
        for name in sorted(self._jobs_of_shard.get(shard, ())):
            job = self.jobs[name]
            yield from (spec for spec, placed in zip(job.specs, job.shards, strict=True) if placed == shard)


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
    sharding = sharding or (known.sharding if known is not None else Sharding(snapshot.shard_count))
    return _build(known, snapshot.commit_number, sharding, _templates(known, snapshot))


def stops_jobs(known: SpecCache | None, fresh: SpecCache) -> bool:
    """Whether a job that had tasks has none in the fresh cache."""
    if known is None:
        return False
    running = {name for name, job in fresh.jobs.items() if job.shards}
    return any(job.shards and name not in running for name, job in known.jobs.items())


def _templates(known: SpecCache | None, snapshot: Snapshot) -> dict[str, TaskTemplate]:
    fresh = {template.job: template for template in snapshot.templates}
    old = {} if known is None else {name: job.template for name, job in known.jobs.items()}
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
    known: SpecCache | None, commit_number: int, sharding: Sharding, templates: Mapping[str, TaskTemplate]
) -> SpecCache:
    """Only jobs that changed since the known cache are computed anew."""
    before: Mapping[str, PlacedJob] = {} if known is None else known.jobs
    is_renumbered = known is None or known.sharding != sharding
    jobs: dict[str, PlacedJob] = {}
    for name, template in templates.items():
        job = before.get(name)
        if job is None or is_renumbered or job.template is not template:
            job = PlacedJob(template, _shards(template, sharding), () if job is None else job.latest_specs())
        jobs[name] = job
    if known is None or is_renumbered:
        return SpecCache(commit_number, sharding, jobs, _moved({}, {}, jobs))
    return SpecCache(commit_number, sharding, jobs, _moved(known._jobs_of_shard, before, jobs))


def _shards(template: TaskTemplate, sharding: Sharding) -> tuple[int | None, ...]:
    config = template.config
    if config.desired_state is DesiredState.STOPPED:
        return ()
    asked = selector(config.region, config.container_labels)
    return tuple(sharding.shard_of(task_id(template.job, index), asked) for index in range(config.task_count))


def _moved(
    known: Mapping[int, set[str]], before: Mapping[str, PlacedJob], after: Mapping[str, PlacedJob]
) -> Mapping[int, set[str]]:
    """The jobs of each shard after some jobs changed; the entries of other shards stay."""
    fresh: dict[int, set[str]] = {}
    for name in before.keys() | after.keys():
        if before.get(name) is after.get(name):
            continue
        old, new = (_shards_of(jobs.get(name)) for jobs in (before, after))
        for shard in old ^ new:
            names = fresh.setdefault(shard, set(known.get(shard, ())))
            (names.add if shard in new else names.discard)(name)
    return {**known, **fresh} if fresh else known


def _shards_of(job: PlacedJob | None) -> set[int]:
    return set() if job is None else {shard for shard in job.shards if shard is not None}
