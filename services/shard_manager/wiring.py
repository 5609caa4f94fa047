"""Puts a Shard Manager together from its settings; also for tests that run several in one process."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from fastapi import FastAPI
from sqlalchemy import Engine

from penstock.control.clock import Clock, SystemClock
from penstock.control.loop import LeaderLoop, Leadership
from penstock.store.election import StoreElection
from penstock.store.engine import connect
from services.shard_manager.api import build_app
from services.shard_manager.health import Health
from services.shard_manager.health_store import PostgresHealthStore
from services.shard_manager.heartbeats import Heartbeats
from services.shard_manager.loop import ShardManager
from services.shard_manager.orders import Orders
from services.shard_manager.settings import ShardManagerSettings
from services.shard_manager.store import LEASE, PostgresShardStore
from services.shard_manager.upkeep import Upkeep
from services.shard_manager.upkeep_store import PostgresUpkeepStore
from services.shard_manager.view import View

RENEWALS_PER_LEASE = 3


class ShardManagerProcess(NamedTuple):
    """The parts with a life: start the loop, serve the app, stop."""

    app: FastAPI
    loop: LeaderLoop
    orders: Orders
    engine: Engine
    view: View

    def start(self) -> None:
        """Begins to run for leader and, once elected, to make rounds."""
        self.loop.start()

    def stop(self) -> None:
        """Ends the loop, gives the lease up and closes connections."""
        self.loop.stop()
        self.orders.close()
        self.engine.dispose()


def in_turn(*steps: Callable[[int], None]) -> Callable[[int], None]:
    """What the leader does again and again, with its epoch."""

    def all_of_them(leader_epoch: int) -> None:
        for step in steps:
            step(leader_epoch)

    return all_of_them


def build(settings: ShardManagerSettings, clock: Clock | None = None) -> ShardManagerProcess:
    """Connects the parts; starts nothing."""
    clock = clock or SystemClock()
    lease_seconds = settings.shard_manager_lease_seconds
    engine = connect(settings.database_url)
    election = StoreElection(engine, LEASE, settings.identity(), url=settings.url(), lease_seconds=lease_seconds)
    leadership = Leadership(LEASE, election, lease_seconds, clock.monotonic)
    store, view = PostgresShardStore(engine), View()
    health = Health(PostgresHealthStore(engine), view, settings, clock)
    orders = Orders(clock, health.answered)
    manager = ShardManager(store, view, orders, settings, clock, wake=lambda: loop.wake())
    upkeep = Upkeep(PostgresUpkeepStore(engine), view, settings, clock)
    loop = LeaderLoop(
        LEASE,
        in_turn(manager.round, health.step, upkeep.step),
        leadership,
        clock,
        period_seconds=settings.shard_manager_round_seconds,
        renew_seconds=lease_seconds / RENEWALS_PER_LEASE,
    )
    heartbeats = Heartbeats(
        store,
        view,
        leadership,
        clock,
        lease_seconds=settings.container_lease_seconds,
        drain_grace_seconds=settings.drain_grace_seconds,
        wake=loop.wake,
    )
    return ShardManagerProcess(build_app(heartbeats), loop, orders, engine, view)
