"""What the State Syncer asked hosts to do besides running tasks, and what became of it. Pure; in memory only.

A Task Manager that was restarted knows of none and does again what it is asked again, which is safe. What is done is
told again, what failed once: asked again it is tried again. Not thread-safe: `container.Container` guards it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from pydantic import ValidationError

from penstock.config.model import DesiredState
from penstock.control.errors import Conflict
from penstock.spark.channel import (
    Initialize,
    Redistribute,
    RemoveGeneration,
    RemoveSavepoint,
    Reply,
    Seal,
    TakeSavepoint,
)
from penstock.spark.channel import Work as Command
from penstock.tasks.redistribution import (
    GenerationRemoval,
    RedistributionReport,
    RedistributionRequest,
    SealRequest,
)
from penstock.tasks.savepoint import SavepointRemoval, SavepointReport, SavepointRequest
from penstock.tasks.sinks import SinkRequest
from penstock.tasks.spec import TaskSpec
from penstock.tasks.work import HostWork
from penstock.wire.redistributions import LOST, RedistributionAnswer, WorkState
from services.task_manager.actions import Action, DoWork, EndHost, KillHost, StartHost
from services.task_manager.catalog import Catalog
from services.task_manager.model import HostFailure, HostKey, HostPhase, HostView, Limits, WorkKey, WorkKind
from services.task_manager.placement import DEFAULT_KEY, may_start, static_settings

KEPT = 1000


class Phase(StrEnum):
    """How far a work is."""

    WAITING = "waiting"
    SENT = "sent"
    OVER = "over"


@dataclass(frozen=True, slots=True)
class Work:
    """One request. `command`: the id under which `host` was told; `answer`: once it is over."""

    request: HostWork
    host_key: HostKey
    phase: Phase = Phase.WAITING
    host: str = ""
    command: int = 0
    answer: RedistributionAnswer | None = None


class Works:
    """All works by key, the newest last."""

    def __init__(self) -> None:
        self._works: dict[WorkKey, Work] = {}

    def ask(self, request: HostWork) -> WorkKey:
        """Takes a request in, unless it is known."""
        key = key_of(request)
        if key not in self._works:
            self._works[key] = Work(request, _host_key(request))
            self._forget_oldest()
        return key

    def is_over(self, key: WorkKey) -> bool:
        """Whether there is nothing to wait for."""
        work = self._works.get(key)
        return work is None or work.phase is Phase.OVER

    def answer(self, key: WorkKey) -> RedistributionAnswer:
        """How far a work is; a failure is forgotten once it is told."""
        work = self._works.get(key)
        if work is None or work.answer is None:
            return RedistributionAnswer(state=WorkState.RUNNING)
        if work.answer.state is WorkState.FAILED:
            del self._works[key]
        return work.answer

    def waiting(self) -> Iterator[tuple[WorkKey, Work]]:
        """Works that no host has been given, the oldest first."""
        return ((key, work) for key, work in self._works.items() if work.phase is Phase.WAITING)

    def load(self) -> Counter[str]:
        """The works that go on, by host."""
        return Counter(work.host for work in self._works.values() if work.phase is Phase.SENT)

    def assign(self, action: DoWork, command_id: int) -> Command:
        """A host is told of a work."""
        work = self._works[action.key]
        self._works[action.key] = replace(work, phase=Phase.SENT, host=action.host, command=command_id)
        match work.request:
            case SealRequest() as request:
                return Seal(id=command_id, request=request)
            case RedistributionRequest() as request:
                return Redistribute(id=command_id, request=request)
            case SavepointRequest() as request:
                return TakeSavepoint(id=command_id, request=request)
            case SavepointRemoval() as request:
                return RemoveSavepoint(id=command_id, request=request)
            case GenerationRemoval() as request:
                return RemoveGeneration(id=command_id, request=request)
            case SinkRequest() as request:
                return Initialize(id=command_id, request=request)

    def awaits(self, command_id: int) -> bool:
        """Whether the reply to a command is one to a work."""
        return any(work.command == command_id for work in self._works.values() if work.phase is Phase.SENT)

    def replied(self, reply: Reply) -> None:
        """A host did a work, or could not."""
        for key, work in self._works.items():
            if work.phase is Phase.SENT and work.command == reply.id:
                self._works[key] = replace(work, phase=Phase.OVER, answer=_answer(work.request, reply))

    def host_exited(self, host: str, reason: str) -> None:
        """Its works failed, and may be tried again elsewhere."""
        for key, work in self._works.items():
            if work.phase is Phase.SENT and work.host == host:
                self._works[key] = replace(
                    work, phase=Phase.OVER, answer=_failure(f"host {host} ended: {reason}", LOST)
                )

    def _forget_oldest(self) -> None:
        over = [key for key, work in self._works.items() if work.phase is Phase.OVER]
        for key in over[: max(0, len(self._works) - KEPT)]:
            del self._works[key]


def key_of(request: HostWork) -> WorkKey:
    """The name of a work."""
    match request:
        case SealRequest():
            return WorkKey(request.job, WorkKind.SEAL, request.layout.generation)
        case RedistributionRequest():
            return WorkKey(request.job, WorkKind.REDISTRIBUTION, request.target.generation)
        case SavepointRequest():
            return WorkKey(request.job, WorkKind.SAVEPOINT, request.number)
        case SavepointRemoval():
            return WorkKey(request.job, WorkKind.REMOVAL, request.number)
        case GenerationRemoval():
            return WorkKey(request.job, WorkKind.COLLECTION, request.generation)
        case SinkRequest():
            return WorkKey(request.job, WorkKind.INITIALIZE, request.revision)


def refuse_used_generation(request: HostWork, catalog: Catalog | None, specs: Iterable[TaskSpec]) -> None:
    """A request that comes late must not write where tasks run, nor take checkpoints from tasks that were resumed, nor
    delete any that are used; `specs` are those of the tasks that are here.

    Every container knows of a stop before one is asked. Raises Conflict.
    """
    template = None if catalog is None else catalog.templates.get(request.job)
    if isinstance(request, GenerationRemoval):
        served = {spec.generation for spec in specs if spec.job == request.job}
        _refuse_removal(request, served | ({template.generation} if template else set()))
        return
    if template is None or not isinstance(request, RedistributionRequest):
        return
    if template.config.desired_state is DesiredState.RUNNING:
        raise Conflict(f"tasks of {request.job} are to run", field="job", rule="stopped")
    if template.generation < request.target.generation:
        return
    raise Conflict(
        f"{request.job} is at generation {template.generation} already",
        field="target.generation",
        rule="never_used_before",
    )


def _refuse_removal(request: GenerationRemoval, used: Collection[int]) -> None:
    if request.generation in used:
        detail = f"generation {request.generation} of {request.job} is in use"
        raise Conflict(detail, field="generation", rule="not_in_use")


def place(
    works: Works,
    hosts: Mapping[str, HostView],
    tasks: Mapping[str, int],
    failures: Mapping[HostKey, HostFailure],
    limits: Limits,
    decided: Collection[Action],
    now: float,
) -> list[Action]:
    """Waiting works onto ready hosts with room, the idlest first; a host where there is none that will be one.

    `tasks` is the number of tasks by host, `decided` what else is done now: hosts that it ends are left alone.
    """
    ending = {action.host for action in decided if isinstance(action, EndHost | KillHost)}
    there = [host for host in hosts.values() if host.name not in ending and host.phase is not HostPhase.ENDING]
    coming = {action.key for action in decided if isinstance(action, StartHost)}
    load = works.load()
    actions: list[Action] = []
    for key, work in works.waiting():
        fitting = [host for host in there if host.key == work.host_key]
        ready = [host.name for host in fitting if host.phase is HostPhase.READY]
        room = [name for name in ready if load[name] < limits.works_per_host]
        if room:
            chosen = min(room, key=lambda name: (load[name], tasks.get(name, 0), name))
            load[chosen] += 1
            actions.append(DoWork(key, chosen))
        elif not fitting and work.host_key not in coming and may_start(work.host_key, failures, now):
            coming.add(work.host_key)
            actions.append(StartHost(work.host_key))
    return actions


def _host_key(request: HostWork) -> HostKey:
    """A shared host that could run the job: a redistribution finishes the pending batches of its tasks, an output is
    made for the rows of its query. Files alone need no package."""
    match request:
        case RedistributionRequest():
            config = request.source.config
        case SealRequest():
            config = request.layout.config
        case SinkRequest():
            config = request.config
        case _:
            return DEFAULT_KEY
    package = config.package
    settings = tuple(sorted(static_settings(config).items()))
    return HostKey(package=(package.name, package.version, package.digest or ""), static_settings=settings)


def _answer(request: HostWork, reply: Reply) -> RedistributionAnswer:
    if not reply.ok:
        kind = "broken" if reply.error_kind == "broken_task" else "retryable"
        return _failure(reply.error or "no reason given", kind)
    done = RedistributionAnswer(state=WorkState.DONE)
    try:
        match request:
            case RedistributionRequest():
                return done.model_copy(update={"report": RedistributionReport.model_validate(reply.result)})
            case SavepointRequest():
                return done.model_copy(update={"savepoint": SavepointReport.model_validate(reply.result)})
    except ValidationError as error:
        return _failure(f"the host's report cannot be read: {error}")
    return done


def _failure(error: str, kind: str = "retryable") -> RedistributionAnswer:
    return RedistributionAnswer(state=WorkState.FAILED, error=error, error_kind=kind)
