"""Rows keep arriving while services are down: each in turn, then all of them, for longer than a lease.

All are long: in `make test`, services are killed and cut off under flowing rows in `test_chaos`.
"""

from __future__ import annotations

import time

import pytest

from penstock.control.process import wait_until
from penstock.local.services import CONSOLE, PORTS
from penstock.local.stack import LocalStack
from tests.e2e.conftest import LEASE_SECONDS
from tests.support import calls
from tests.support.chaos.perform import begin
from tests.support.chaos.stack import ChaosStack
from tests.support.chaos.timetable import STORE, Fault, Kind
from tests.support.identity import OBSERVER, auth
from tests.support.stack.rows import RowJob

SERVICES = tuple(name for name in PORTS if name != CONSOLE)
"""Those of the tests' stack. The console only asks the Job Service."""


@pytest.mark.long
@pytest.mark.parametrize("down", [*((name,) for name in SERVICES), SERVICES], ids=lambda names: "+".join(names))
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
        stack.supervisor.wait_ready(name)
    rows.change()
    rows.wait_converged()
    rows.send_and_wait()
    rows.assert_exact()


@pytest.mark.long
def test_without_shard_manager_and_store_tasks_stop_and_come_back_by_themselves(stack: ChaosStack, rows: RowJob):
    """1. Rows flow. 2. The Shard Manager is killed, and the store does not answer any more. 3. When the leases have run
    out no container runs a task. 4. Both come back. 5. The tasks run again, and every row is there once."""
    rows.send_and_wait()
    stack.supervisor.take_down("shard_manager")
    come_back = begin(stack, Fault(0.0, 0.0, Kind.CUT, STORE, "both"))
    try:
        wait_until(lambda: not _running(stack), 4 * LEASE_SECONDS, "every task to stop")
        rows.send(40)
    finally:
        come_back()
        stack.supervisor.bring_up("shard_manager")
    rows.send_and_wait()
    rows.wait_converged()
    rows.assert_exact()


def _running(stack: ChaosStack) -> list[str]:
    """What the containers run, by their own word."""
    answers = [
        calls.get(f"{stack.plan.url(name)}/v1/tasks", auth=auth(OBSERVER, stack.plan.identity_dir)).json()["tasks"]
        for name in stack.containers
    ]
    return [f"{task['job']}/{task['index']}" for tasks in answers for task in tasks]


def _flow_for(rows: RowJob, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        rows.send_and_wait(4)
