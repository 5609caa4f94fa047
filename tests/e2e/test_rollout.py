"""A package that fails at start disrupts one task and is rolled back; the next one goes out by itself.

Long, for each version has a Spark host of its own. In `make test` `tests.integration.test_rollouts` has the same story
on a real Postgres and a real Job Service, and `tests.unit.task_manager` a host for each version.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock.local.stack import LocalStack
from tests.support.stack.packaged import BROKEN, GOOD, PackagedJob


@pytest.fixture
def rows(stack: LocalStack) -> Iterator[PackagedJob]:
    """A converged job of two tasks with version 1 of its package."""
    job = PackagedJob(stack, "packaged")
    job.create()
    yield job
    job.delete()


@pytest.mark.long
def test_after_a_rollback_a_good_package_goes_out(stack: LocalStack, rows: PackagedJob) -> None:
    """1. Version 2 raises an error: the first task crashes, the other runs on. 2. The layer `rollback` has version 1
    again, written by the State Syncer, and every row is there once. 3. Version 3 is released: the layer goes, and all
    tasks run it. 4. Every row is there once."""
    _assert_rolled_back(stack, rows)
    rows.release("3", GOOD)
    rows.send(40)
    rows.watch("3")
    rows.send_and_wait()
    rows.assert_exact()
    with stack.client() as client:
        assert client.get_layer(rows.name, "rollback").config is None
        assert client.alerts(kind="rolled_back", subject=rows.name).alerts == []


def _assert_rolled_back(stack: LocalStack, rows: PackagedJob) -> None:
    rows.send_and_wait()
    bad = rows.release("2", BROKEN)
    rows.send(40)
    rows.watch("1")
    assert ("crashed", bad) in rows.seen[0]
    assert {state for state, _ in rows.seen[1]} == {"running"}
    assert bad not in {revision for _, revision in rows.seen[1]}
    with stack.client() as client:
        layer = client.get_layer(rows.name, "rollback")
        (alert,) = client.alerts(kind="rolled_back", subject=rows.name).alerts
    assert (layer.config, str(layer.author).startswith("state-syncer")) == ({"package": {"version": "1"}}, True)
    assert "this version does not start" in alert.details["error"]
    rows.send_and_wait()
    rows.assert_exact()
