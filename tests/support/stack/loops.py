"""The services that write the job store, without Spark: what a change of the store is tried on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from sqlalchemy import Engine

from penstock.control.loop import LeaderLoop
from penstock.store.election import Listener
from penstock.store.engine import CHANGED_EXPECTED, engine_of
from services.state_syncer.settings import StateSyncerSettings
from services.state_syncer.wiring import build
from tests.support import identity
from tests.support.job_service.service import job_service
from tests.support.shard_manager.cell import ShardCell, shard_cell
from tests.support.store.confirmed import Writer, writing

JOBS = ("a", "b", "c")
_SYNCER: dict[str, Any] = {"state_syncer_lease_seconds": 10.0, "state_syncer_renew_seconds": 0.5}
_SHARDS: dict[str, Any] = {
    "fail_over_seconds": 60.0,
    "container_lease_seconds": 40.0,
    "shard_manager_lease_seconds": 10.0,
}


@contextmanager
def running_loop(service: StateSyncerSettings) -> Iterator[LeaderLoop]:
    """A State Syncer's loop and listener, without its HTTP side."""
    loop = build(service, identity.outgoing("state_syncer"))
    listener = Listener(service.notifications_url(), (CHANGED_EXPECTED,), loop.wake)
    loop.start()
    listener.start()
    try:
        yield loop
    finally:
        listener.stop()
        loop.stop()


@contextmanager
def working(url: str, **settings: Any) -> Iterator[tuple[Engine, Writer, ShardCell]]:
    """A Job Service that is written to all the time, a State Syncer, and a Shard Manager with two containers.

    `settings`: those of all services, such as `database_pooled`.
    """
    syncer = StateSyncerSettings(database_url=url, **_SYNCER, **settings)
    with ExitStack() as stack:
        engine = engine_of(syncer)
        stack.callback(engine.dispose)
        service = stack.enter_context(job_service(url, **settings))
        stack.enter_context(running_loop(syncer))
        cell = stack.enter_context(shard_cell(engine, url, "one", "two", **_SHARDS, **settings))
        writer = stack.enter_context(writing(stack.enter_context(service.client()), JOBS))
        yield engine, writer, cell
