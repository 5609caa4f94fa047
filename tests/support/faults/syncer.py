"""The ports of the State Syncer: its store, the containers that its executors ask, the rows of savepoints."""

from __future__ import annotations

from typing import Any

from penstock.store import generations, savepoints
from penstock.tasks.redistribution import GenerationRemoval, RedistributionRequest, SealRequest
from penstock.tasks.savepoint import SavepointRemoval, SavepointRequest
from penstock.tasks.sinks import SinkRequest
from penstock.tasks.work import HostWork
from penstock.wire.redistribution_client import RedistributionClient
from services.state_syncer.store import Batch, PostgresSyncStore
from tests.support.faults.orders import Port, named

REQUESTS: dict[type[Any], str] = {
    RedistributionRequest: "redistribution",
    SealRequest: "seal",
    SavepointRequest: "savepoint",
    SavepointRemoval: "removal",
    SinkRequest: "output",
    GenerationRemoval: "collection",
}
WRITES = {"await_stopped": "write stop", "redistribute": "write redistribute", "seal": "write seal"}
END = "write end"


def write_of(_: Any, batch: Batch, leader_epoch: int) -> str | None:
    """What a round writes about a rescale, by the step that it records; other rounds are no action."""
    for write in batch.plans:
        return END if write.plan is None else WRITES.get(write.plan["step"])
    return None


def ask_of(_: Any, url: str, request: HostWork, *, wait_seconds: float) -> str:
    """What a container is asked."""
    return f"ask {REQUESTS[type(request)]}"


PORTS = (
    Port(PostgresSyncStore, "write", (*WRITES.values(), END), write_of),
    Port(RedistributionClient, "ask", tuple(f"ask {name}" for name in REQUESTS.values()), ask_of),
    named(savepoints, "bind", "bind savepoint"),
    named(savepoints, "taken", "savepoint taken"),
    named(savepoints, "removed", "savepoint removed"),
    named(generations, "note", "note collection"),
    named(generations, "bind", "bind collection"),
    named(generations, "collected", "end of collection"),
)
