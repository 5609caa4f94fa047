"""What tasks use, from the hosts' measurements to the API, on real processes. Long: each half has tests of its own."""

from __future__ import annotations

import pytest

from penstock.control.process import wait_until
from penstock.local.stack import LocalStack
from penstock.tasks.dimensions import CPU, DIMENSIONS, DISK, MEMORY, NETWORK
from tests.support.stack.rows import RowJob

NAMES = {dimension.name for dimension in DIMENSIONS}


@pytest.mark.long
def test_the_load_of_each_task_is_soon_known_in_every_dimension(stack: LocalStack, rows: RowJob):
    """1. Rows flow. 2. Each task's load is known, also that of the network. 3. Every container offers all of that."""
    rows.send_and_wait()
    with stack.client() as client:

        def loads() -> list[dict[str, float]]:
            return [task.load or {} for task in client.tasks(rows.name).tasks]

        wait_until(lambda: all(load.keys() == NAMES for load in loads()), 60, "all loads to be known")
        for load in loads():
            assert 0 <= load[CPU] < 4
            assert load[NETWORK] >= 0
            assert load[MEMORY] > 0
            assert load[DISK] > 0
        assert all(container.further_capacity[NETWORK] > 0 for container in client.containers().containers)
