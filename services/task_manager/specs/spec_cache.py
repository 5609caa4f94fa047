"""The specs of all jobs of the cell as the Task Service last sent them, indexed by shard. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, repeat

from penstock.config.model import DesiredState
from penstock.tasks.selectors import in_words, meets, offered, selector
from penstock.tasks.shards import Sharding
from penstock.tasks.spec import TaskSpec, TaskTemplate, coming_specs, expand, task_id
from penstock.wire.cluster import DIGESTS, Identity, Snapshot
from services.task_manager.decide.model import DesiredTask


@dataclass(frozen=True)
class PlacedJob:
    """A job's template, and the shard of each of its tasks in order of index; none when it is stopped.

    A task that no shard contains has the shard None. `digest`: of the template, by the Task Service. `former`: specs
    of an earlier template, so that unchanged tasks keep their object.
    """

    template: TaskTemplate
    shards: tuple[int | None, ...]
    digest: int = 0
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
    """The jobs of the cell up to `commit_number`, under the sharding of the container's shards.

    `store`: the incarnation of the job store; empty when an older Task Service did not say it. `digest`: the sum of the
    digests of all jobs, modulo 2^128. `told`: that sum by the newest snapshot, which leaves `unreadable` jobs out; None
    when it said none.
    """

    commit_number: int
    sharding: Sharding
    jobs: Mapping[str, PlacedJob]
    _jobs_of_shard: Mapping[int, set[str]] = field(compare=False)
    store: str = ""
    digest: int = 0
    told: int | None = field(default=None, compare=False)
    unreadable: tuple[str, ...] = field(default=(), compare=False)

    def is_proven(self) -> bool:
        """Whether these are the jobs of the Task Service, by the digest in its newest answer. True without one."""
        left_out = sum(self.jobs[job].digest for job in self.unreadable if job in self.jobs)
        return self.told is None or (self.digest - left_out) % DIGESTS == self.told

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

    def coming(self, owned: Collection[int], here: Identity) -> list[TaskSpec]:
        """The tasks that rescales will start in owned shards, in order of job and index; they must not run yet."""
        offers = offered(here.region, here.labels)
        return [
            spec
            for _, job in sorted(self.jobs.items())
            if job.template.coming is not None
            for spec in coming_specs(job.template)
            if self.shard_of(spec) in owned and _refusal(spec, here, offers) is None
        ]

    def shard_of(self, spec: TaskSpec) -> int | None:
        """The shard of a task; None when no shard contains it."""
        config = spec.config
        return self.sharding.shard_of(spec.task_id, selector(config.region, config.container_labels))

    def tasks_of(self, shard: int) -> tuple[str, ...]:
        """The ids of a shard's tasks, in order of job and index."""
        return tuple(spec.task_id for spec in self._of_shard(shard))

    def with_sharding(self, sharding: Sharding | None) -> SpecCache:
        """The same templates under another sharding; None leaves the sharding as it is."""
        if sharding in (None, self.sharding):
            return self
        assert sharding is not None
        jobs = {
            name: PlacedJob(job.template, _shards(job.template, sharding), job.digest, job.latest_specs())
            for name, job in self.jobs.items()
        }
        return replace(self, sharding=sharding, jobs=jobs, _jobs_of_shard=_moved({}, {}, jobs))

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

    A snapshot that is older than the known cache changes nothing, whoever sent it. Commit numbers of another
    incarnation of the store cannot be compared: its full snapshot replaces everything. `sharding` is that of the
    container's shards. While it is None, the number of shards in the snapshot is used. Raises ValueError for a delta
    without a known cache of its store.
    """
    if known is not None and is_other_store(known, snapshot):
        sharding, known = sharding or known.sharding, None
    if known is None and not snapshot.full:
        raise ValueError("a delta needs a full snapshot before it")
    if known is not None and is_older(known, snapshot):
        return known
    sharding = sharding or (known.sharding if known is not None else Sharding(snapshot.shard_count))
    fresh, gone = _changes(known, snapshot)
    return _build(known, snapshot, sharding, fresh, gone)


def is_other_store(known: SpecCache, snapshot: Snapshot) -> bool:
    """Whether a snapshot is of another incarnation of the job store. False where one of them does not say."""
    return "" not in (known.store, snapshot.store) and known.store != snapshot.store


def is_older(known: SpecCache, snapshot: Snapshot) -> bool:
    """Whether a snapshot is older than what is known."""
    return snapshot.commit_number < known.commit_number


def stops_jobs(known: SpecCache | None, fresh: SpecCache) -> bool:
    """Whether a job that had tasks has none in the fresh cache."""
    if known is None:
        return False
    running = {name for name, job in fresh.jobs.items() if job.shards}
    return any(job.shards and name not in running for name, job in known.jobs.items())


Fresh = Mapping[str, tuple[TaskTemplate, int]]


def _changes(known: SpecCache | None, snapshot: Snapshot) -> tuple[Fresh, Collection[str]]:
    """The templates that differ from the known ones, with their digests, and the jobs that are gone."""
    digests = snapshot.row_digests or repeat(0)
    told = {template.job: (template, digest) for template, digest in zip(snapshot.templates, digests, strict=False)}
    if known is None:
        return told, ()
    fresh = {job: told_of for job, told_of in told.items() if not _is_known(known.jobs.get(job), *told_of)}
    gone = known.jobs.keys() - told.keys() - set(snapshot.unreadable) if snapshot.full else snapshot.removed
    return fresh, gone


def _is_known(job: PlacedJob | None, template: TaskTemplate, digest: int) -> bool:
    return job is not None and (job.template.commit_number, job.digest) == (template.commit_number, digest)


def _same_spec(new: TaskSpec, old: TaskSpec | None) -> TaskSpec:
    """The old spec when nothing differs. JSON is compared too, since Python takes 1, 1.0 and True for equal."""
    is_same = old is not None and old == new and old.model_dump_json() == new.model_dump_json()
    return old if old is not None and is_same else new


def _build(
    known: SpecCache | None, snapshot: Snapshot, sharding: Sharding, fresh: Fresh, gone: Collection[str]
) -> SpecCache:
    """Only jobs that changed since the known cache are computed anew."""
    known = None if known is None else known.with_sharding(sharding)
    before: Mapping[str, PlacedJob] = {} if known is None else known.jobs
    changed: dict[str, PlacedJob] = {}
    for name, (template, digest) in fresh.items():
        old = before.get(name)
        former = () if old is None else old.latest_specs()
        changed[name] = PlacedJob(template, _shards(template, sharding), digest, former)
    left = {name: before[name] for name in {*fresh, *gone} if name in before}
    digest = (0 if known is None else known.digest) + _sum(changed) - _sum(left)
    return SpecCache(
        snapshot.commit_number,
        sharding,
        _replaced(before, left, changed) if changed or left else before,
        _moved({} if known is None else known._jobs_of_shard, left, changed),
        snapshot.store or ("" if known is None else known.store),
        digest % DIGESTS,
        snapshot.digest,
        snapshot.unreadable,
    )


def _replaced(
    before: Mapping[str, PlacedJob], left: Mapping[str, PlacedJob], changed: Mapping[str, PlacedJob]
) -> Mapping[str, PlacedJob]:
    jobs = {**before, **changed}
    for name in left.keys() - changed.keys():
        del jobs[name]
    return jobs


def _sum(jobs: Mapping[str, PlacedJob]) -> int:
    return sum(job.digest for job in jobs.values())


def _shards(template: TaskTemplate, sharding: Sharding) -> tuple[int | None, ...]:
    config = template.config
    if config.desired_state is DesiredState.STOPPED:
        return ()
    asked = selector(config.region, config.container_labels)
    return tuple(sharding.shard_of(task_id(template.job, index), asked) for index in range(config.task_count))


def _moved(
    known: Mapping[int, set[str]], before: Mapping[str, PlacedJob], after: Mapping[str, PlacedJob]
) -> Mapping[int, set[str]]:
    """The jobs of each shard after some jobs, `before`, became those of `after`; the entries of other shards stay."""
    fresh: dict[int, set[str]] = {}
    for name in before.keys() | after.keys():
        old, new = (_shards_of(jobs.get(name)) for jobs in (before, after))
        for shard in old ^ new:
            names = fresh.setdefault(shard, set(known.get(shard, ())))
            (names.add if shard in new else names.discard)(name)
    return {**known, **fresh} if fresh else known


def _shards_of(job: PlacedJob | None) -> set[int]:
    return set() if job is None else {shard for shard in job.shards if shard is not None}
