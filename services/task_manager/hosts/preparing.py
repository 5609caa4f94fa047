"""Tasks that a rescale will start here: hosts are told once to make ahead what they need, while the job is stopped, and
to give it up when the rescale is taken back, or another host starts the task.

It only saves time. The tasks are not desired, and not reported; a host that ends takes what it made with it. An
isolated task is not prepared, since its host ends with the task that runs now.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from penstock.config.model import DesiredState
from penstock.spark.channel import GiveUp, Prepare
from penstock.tasks.spec import TaskSpec
from penstock.wire.cluster import Identity
from services.task_manager.decide.actions import (
    Action,
    EndHost,
    EvacuateHost,
    GiveUpTask,
    KillHost,
    PrepareTask,
    StartHost,
)
from services.task_manager.decide.host_choice import host_key, may_start
from services.task_manager.decide.model import HostKey, HostPhase, Observed
from services.task_manager.specs.spec_cache import SpecCache

Told = tuple[str, int, str]


class Preparing:
    """What was told to hosts. Pure but for what it remembers; not thread-safe."""

    def __init__(self) -> None:
        self._told: dict[Told, TaskSpec] = {}
        self._started: frozenset[HostKey] = frozenset()
        self._found: tuple[SpecCache | None, Collection[int], list[TaskSpec]] = (None, (), [])

    def actions(
        self,
        cache: SpecCache | None,
        owned: Collection[int],
        here: Identity,
        observed: Observed,
        decided: Collection[Action],
        now: float,
    ) -> list[Action]:
        """What hosts are to be told now. `decided`: the other actions of this tick."""
        coming = self._coming(cache, owned, here)
        made = prepared(coming, observed, decided, now, self._told, self._started)
        self._told |= {
            _told(action.spec, action.host): action.spec for action in made if isinstance(action, PrepareTask)
        }
        self._started &= {host_key(spec) for spec in coming}
        self._started |= {action.key for action in made if isinstance(action, StartHost)}
        if cache is None:
            return made
        gone = over(self._told, coming, cache, owned, observed)
        self._told = {told: spec for told, spec in self._told.items() if told not in gone}
        return [*made, *(GiveUpTask(*told) for told, is_unused in gone.items() if is_unused)]

    def _coming(self, cache: SpecCache | None, owned: Collection[int], here: Identity) -> list[TaskSpec]:
        known, of, found = self._found
        if cache is not known or owned != of:
            found = [] if cache is None else cache.coming(owned, here)
            self._found = (cache, owned, found)
        return found


def prepared(
    coming: Iterable[TaskSpec],
    observed: Observed,
    decided: Collection[Action],
    now: float,
    told: Collection[Told],
    started: Collection[HostKey],
) -> list[Action]:
    """Each task is prepared once by the host that it would be given to: the fullest one of its key that is ready. A
    host is started, once, for a key that has none. Pure."""
    ending = {action.host for action in decided if isinstance(action, EndHost | EvacuateHost | KillHost)}
    starting = {*started, *(action.key for action in decided if isinstance(action, StartHost))}
    load, actions = observed.load(), list[Action]()
    there = [host for host in observed.hosts.values() if host.name not in ending and host.phase.stays]
    for spec in coming:
        key = host_key(spec)
        if key.isolated_task:
            continue
        fitting = [host for host in there if host.key == key]
        ready = sorted((-load[host.name], host.name) for host in fitting if host.phase is HostPhase.READY)
        if ready and _told(spec, ready[0][1]) not in told:
            actions.append(PrepareTask(spec, ready[0][1]))
        elif not fitting and key not in starting and may_start(key, observed, now):
            starting.add(key)
            actions.append(StartHost(key))
    return actions


def over(
    told: Mapping[Told, TaskSpec],
    coming: Iterable[TaskSpec],
    cache: SpecCache,
    owned: Collection[int],
    observed: Observed,
) -> dict[Told, bool]:
    """What needs no preparing any more: whether a host still has it, and nobody will use it. Pure.

    Between the end of a rescale and the start of its tasks they are to come, too.
    """
    wanted = {(spec.task_id, spec.generation) for spec in coming}
    gone = dict[Told, bool]()
    for each, spec in told.items():
        task = observed.tasks.get(spec.task_id)
        has_begun = task is not None and task.spec.generation >= spec.generation
        if each[:2] in wanted or (not has_begun and _is_due(spec, cache, owned)):
            continue
        is_taken = has_begun and task is not None and task.host == each[2]
        gone[each] = each[2] in observed.hosts and not is_taken
    return gone


def command_of(action: PrepareTask | GiveUpTask, command_id: int) -> Prepare | GiveUp:
    """What the host is told."""
    if isinstance(action, PrepareTask):
        return Prepare(id=command_id, spec=action.spec)
    return GiveUp(id=command_id, task_id=action.task_id, generation=action.generation)


def _is_due(spec: TaskSpec, cache: SpecCache, owned: Collection[int]) -> bool:
    job = cache.jobs.get(spec.job)
    if job is None or cache.shard_of(spec) not in owned:
        return False
    now = job.template
    return now.generation == spec.generation and now.config.desired_state is DesiredState.RUNNING


def _told(spec: TaskSpec, host: str) -> Told:
    return spec.task_id, spec.generation, host
