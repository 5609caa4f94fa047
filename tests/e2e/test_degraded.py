"""Rows keep arriving while services are down: each in turn, then all of them, for longer than a lease."""

from __future__ import annotations

import time

import pytest

from penstock.local.services import PORTS
from penstock.local.stack import READY_S, LocalStack
from tests.e2e.conftest import LEASE_SECONDS
from tests.support.rows import RowJob


@pytest.mark.parametrize(
    "down",
    [
        *(pytest.param((name,), marks=() if name == "shard_manager" else (pytest.mark.long,)) for name in PORTS),
        tuple(PORTS),
    ],
    ids=lambda names: "+".join(names),
)
def test_rows_keep_arriving_while_services_are_down(stack: LocalStack, rows: RowJob, down: tuple[str, ...]):
    """1. Rows flow. 2. `kill -9`. 3. Rows are sent, one after the other, for longer than a container's lease, and each
    arrives. 4. The services come back. 5. A change still reaches the tasks. 6. Every row is there once."""
    rows.send_and_wait()
    for name in down:
        stack.supervisor.take_down(name)
    try:
        outlasts_a_lease = "shard_manager" in down
        _flow_for(rows, 1.5 * LEASE_SECONDS if outlasts_a_lease else 2.0)
    finally:
        for name in down:
            stack.supervisor.bring_up(name)
    for name in down:
        stack.supervisor.wait_ready(name, READY_S)
    with stack.client() as client:
        client.patch_layer(rows.name, "oncall", {"trigger_interval_seconds": 0.4}, if_match=0, reason="still works")
    rows.wait_converged()
    rows.send_and_wait()
    rows.assert_exact()


def _flow_for(rows: RowJob, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        rows.send_and_wait(4)
