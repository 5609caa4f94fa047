"""The ports of the State Syncer: its store, the containers that its dispatcher asks, the rows of savepoints."""

from __future__ import annotations

from typing import Any

from penstock.tasks.host_task import POLICIES, HostTask
from penstock.wire.host_task_client import HostTaskClient
from services.state_syncer.generations import store as generations
from services.state_syncer.savepoints import store as savepoints
from services.state_syncer.store.port import Batch, SyncStore
from tests.support.faults.orders import Port, named

WRITES = {"await_stopped": "write stop", "redistribute": "write redistribute", "seal": "write seal"}
END = "write end"


def write_of(_: Any, batch: Batch, leader_epoch: int) -> str | None:
    """What a round writes about a rescale, by the step that it records; other rounds are no action."""
    for write in batch.plans:
        return END if write.plan is None else WRITES.get(write.plan.step)
    return None


def ask_of(_: Any, container: str, url: str, task: HostTask, *, wait_seconds: float) -> str:
    """What a container is asked."""
    return f"ask {task.request.kind}"


PORTS = (
    Port(SyncStore, "write", (*WRITES.values(), END), write_of),
    Port(HostTaskClient, "put", tuple(f"ask {kind}" for kind in POLICIES), ask_of),
    named(savepoints, "bind", "bind savepoint"),
    named(savepoints, "taken", "savepoint taken"),
    named(savepoints, "removed", "savepoint removed"),
    named(generations, "note", "note generation to remove"),
    named(generations, "bind", "bind remove_generation"),
    named(generations, "collected", "end of remove_generation"),
)
