"""Tasks that a rescale will start here: hosts are told once to make ahead what they need, while the job is stopped.

It only saves time. The tasks are not desired, and not reported; a host that ends takes what it made with it. An
isolated task is not prepared, since its host ends with the task that runs now.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from penstock.tasks.spec import TaskSpec
from penstock.wire.cluster import Identity
from services.task_manager.decide.actions import Action, EndHost, EvacuateHost, KillHost, PrepareTask, StartHost
from services.task_manager.decide.host_choice import host_key, may_start
from services.task_manager.decide.model import HostKey, HostPhase, Observed
from services.task_manager.specs.spec_cache import SpecCache

Told = tuple[str, int, str]


class Preparing:
    """What was told to hosts. Pure but for what it remembers; not thread-safe."""

    def __init__(self) -> None:
        self._told: frozenset[Told] = frozenset()
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
        actions = prepared(coming, observed, decided, now, self._told, self._started)
        self._remember(coming, actions)
        return actions

    def _coming(self, cache: SpecCache | None, owned: Collection[int], here: Identity) -> list[TaskSpec]:
        known, of, found = self._found
        if cache is not known or owned != of:
            found = [] if cache is None else cache.coming(owned, here)
            self._found = (cache, owned, found)
        return found

    def _remember(self, coming: Iterable[TaskSpec], actions: Iterable[Action]) -> None:
        """Only of tasks that are still to come."""
        specs = list(coming)
        wanted, keys = {(spec.task_id, spec.generation) for spec in specs}, {host_key(spec) for spec in specs}
        told = {_told(action.spec, action.host) for action in actions if isinstance(action, PrepareTask)}
        self._told = frozenset(each for each in self._told | told if each[:2] in wanted)
        started = {action.key for action in actions if isinstance(action, StartHost)}
        self._started = (self._started | started) & keys


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


def _told(spec: TaskSpec, host: str) -> Told:
    return spec.task_id, spec.generation, host
