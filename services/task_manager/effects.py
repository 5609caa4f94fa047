"""Actions as what they change in the state and what has to be done for them. Pure; `host_pool` does it."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.control.logs import logger
from penstock.spark.channel import Command
from services.task_manager.actions import (
    Action,
    AdoptRevision,
    ApplyLive,
    DoWork,
    EndHost,
    KillHost,
    StartHost,
    StartTask,
    StopTask,
)
from services.task_manager.model import HostKey
from services.task_manager.state import State

log = logger(__name__)


@dataclass(frozen=True, slots=True)
class Spawn:
    """Make a host process."""

    name: str
    key: HostKey


@dataclass(frozen=True, slots=True)
class Send:
    """Hand a command to a host."""

    host: str
    command: Command


@dataclass(frozen=True, slots=True)
class Kill:
    """Kill a host."""

    host: str


Effect = Spawn | Send | Kill


def apply(state: State, action: Action, now: float) -> list[Effect]:
    """Notes an action in the state; the effects that carry it out."""
    match action:
        case StartHost():
            return [Spawn(state.start_host(action, now), action.key)]
        case EndHost():
            return [Send(action.host, state.end_host(action.host, action.kill_at, now))]
        case KillHost():
            log.warning("host killed", host=action.host, reason=action.reason)
            return [Kill(action.host)]
        case StartTask():
            log.info("task starts", task=action.spec.task_id, revision=action.spec.revision, epoch=action.epoch)
            return [Send(action.host, state.start_task(action, now))]
        case StopTask():
            return _stop(state, action, now)
        case ApplyLive():
            return [Send(state.tasks[action.task_id].host, state.apply_live(action))]
        case AdoptRevision():
            log.info("revision adopted", task=action.task_id, revision=action.spec.revision)
            state.adopt(action.task_id, action.spec)
            return []
        case DoWork():
            log.info("work given", job=action.key.job, number=action.key.number, kind=action.key.kind.value)
            return [Send(action.host, state.do_work(action))]


def _stop(state: State, action: StopTask, now: float) -> list[Effect]:
    task = state.tasks[action.task_id]
    command = state.stop_task(action, now)
    if command is None:
        return []
    log.info("task stops", task=action.task_id, revision=task.spec.revision, reason=action.reason.value)
    return [Send(task.host, command)]
