"""From actions to effects: each action changes the state and says what to do to a host. Pure; `host_pool` does it."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.control.logs import logger
from penstock.spark.channel import Command
from services.task_manager.decide.actions import (
    Action,
    AdoptRevision,
    ApplyLive,
    CancelHostTask,
    EndHost,
    KillHost,
    RunHostTask,
    StartHost,
    StartTask,
    StopTask,
)
from services.task_manager.decide.model import HostKey
from services.task_manager.state import State

log = logger(__name__)


@dataclass(frozen=True, slots=True)
class Spawn:
    """Start a host process."""

    name: str
    key: HostKey


@dataclass(frozen=True, slots=True)
class Send:
    """Send a command to a host."""

    host: str
    command: Command


@dataclass(frozen=True, slots=True)
class Kill:
    """Kill a host with all its processes."""

    host: str


Effect = Spawn | Send | Kill


def apply(state: State, action: Action, now: float) -> list[Effect]:
    """Records an action in the state. Returns the effects that carry it out."""
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
            return [Send(state.observed().tasks[action.task_id].host, state.apply_live(action))]
        case AdoptRevision():
            log.info("revision adopted", task=action.task_id, revision=action.spec.revision)
            state.adopt(action.task_id, action.spec)
            return []
        case RunHostTask():
            log.info("host task given", key=action.key, host=action.host)
            return [Send(action.host, state.run_host_task(action))]
        case CancelHostTask():
            log.info("host task cancelled", key=action.key, host=action.host)
            return [Send(action.host, state.host_tasks.revoked(action, state.next_command_id()))]


def _stop(state: State, action: StopTask, now: float) -> list[Effect]:
    task = state.observed().tasks[action.task_id]
    command = state.stop_task(action, now)
    if command is None:
        return []
    log.info("task stops", task=action.task_id, revision=task.spec.revision, reason=action.reason.value)
    return [Send(task.host, command)]
