"""The State Syncer's loop in this process, on a real Postgres: notifications, and a lease that ends."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from sqlalchemy import Engine

from penstock.control.loop import LeaderLoop
from penstock.control.process import wait_until
from penstock.store.election import Listener
from penstock.store.engine import CHANGED_EXPECTED
from services.state_syncer.settings import StateSyncerSettings
from services.state_syncer.wiring import build
from tests.support.identity import outgoing
from tests.support.state_syncer.cell import Cell, depose, elect
from tests.support.store.jobs import delete_job, make_layer, write_layer


@pytest.fixture
def cell(engine: Engine) -> Cell:
    return Cell(engine)


def settings(database_url: str, **overrides: Any) -> StateSyncerSettings:
    values = {"state_syncer_period_seconds": 3600, "state_syncer_lease_seconds": 1.0, "state_syncer_renew_seconds": 0.1}
    return StateSyncerSettings(database_url=database_url, **(values | overrides))


def test_a_write_wakes_the_loop(cell: Cell, database_url: str) -> None:
    """The period is an hour, so only the notification can bring the change."""
    depose(cell.engine)
    service = settings(database_url)
    with running_loop(service):
        wait_until(lambda: cell.rows("SELECT 1 FROM cluster WHERE key = 'synced_ranks'"), 10, "the first round")
        write_layer(cell.engine, "j", make_layer())
        wait_until(lambda: cell.running() is not None, 5, "the commit")
        delete_job(cell.engine, "j")
        assert wait_until(lambda: cell.rows("SELECT 1 FROM forgotten"), 5, "the job to be forgotten")


def test_a_standby_takes_over_when_the_lease_ends(cell: Cell, database_url: str) -> None:
    """1. A leader holds the lease and says no more (kill -9). 2. The standby leads within the lease and carries on."""
    depose(cell.engine)
    elect(cell.engine, "leader", seconds=1.5)
    write_layer(cell.engine, "j", make_layer())
    with running_loop(settings(database_url)) as loop:
        wait_until(lambda: loop.status() == {"role": "standby", "epoch": None}, 5, "the standby")
        wait_until(lambda: cell.running() is not None, 10, "the commit")
        assert loop.status() == {"role": "leader", "epoch": cell.running()["leader_epoch"]}


@contextmanager
def running_loop(service: StateSyncerSettings) -> Iterator[LeaderLoop]:
    """The process's loop and listener, without its HTTP side."""
    loop = build(service, outgoing("state_syncer"))
    listener = Listener(service.database_url, (CHANGED_EXPECTED,), loop.wake)
    loop.start()
    listener.start()
    try:
        yield loop
    finally:
        listener.stop()
        loop.stop()
