"""Puts a Shard Manager together from its settings; also for tests that run several in one process."""

from __future__ import annotations

from typing import NamedTuple

from fastapi import FastAPI
from sqlalchemy import Engine

from penstock.control.clock import Clock, SystemClock
from penstock.control.loop import LeaderLoop, Leadership
from penstock.control.steps import in_turn
from penstock.identity.outgoing import Outgoing
from penstock.identity.process import ProcessIdentity, identity_of
from penstock.identity.roles import Caller, Role
from penstock.store.election import StoreElection
from penstock.store.engine import engine_of
from penstock.store.rounds import RoundNotes
from services.shard_manager.api import build_app
from services.shard_manager.health.reconciler import HealthReconciler
from services.shard_manager.leader.heartbeats import Heartbeats
from services.shard_manager.leader.housekeeping import Housekeeping
from services.shard_manager.leader.loop import ShardManager
from services.shard_manager.leader.orders import Orders
from services.shard_manager.leader.view import View
from services.shard_manager.settings import ShardManagerSettings
from services.shard_manager.store.health import HealthStore
from services.shard_manager.store.housekeeping import HousekeepingStore
from services.shard_manager.store.port import LEASE, ShardStore

RENEWALS_PER_LEASE = 3


class ShardManagerProcess(NamedTuple):
    """The parts of a running process."""

    app: FastAPI
    loop: LeaderLoop
    orders: Orders
    engine: Engine
    view: View
    identity: ProcessIdentity

    def start(self) -> None:
        """Starts the loop: it stands for election and, once elected, makes rounds."""
        self.loop.start()

    def stop(self) -> None:
        """Ends the loop, gives up the lease and closes connections."""
        self.loop.stop()
        self.orders.close()
        self.engine.dispose()


def build(settings: ShardManagerSettings, clock: Clock | None = None) -> ShardManagerProcess:
    """Connects the parts; starts nothing."""
    clock = clock or SystemClock()
    lease_seconds = settings.shard_manager_lease_seconds
    identity = identity_of(settings, Caller(Role.SHARD_MANAGER))
    engine = engine_of(settings)
    election = StoreElection(engine, LEASE, settings.identity(), url=settings.url(), lease_seconds=lease_seconds)
    leadership = Leadership(LEASE, election, lease_seconds, clock.monotonic)
    store, view = ShardStore(engine), View(add_limit_seconds=settings.add_limit_seconds)
    health = HealthReconciler(HealthStore(engine), view, settings, clock)
    orders = Orders(clock, health.order_answered, identity=Outgoing(identity))
    manager = ShardManager(store, view, orders, settings, clock, wake=lambda: loop.wake())
    housekeeping = Housekeeping(HousekeepingStore(engine), view, settings, clock)
    loop = LeaderLoop(
        LEASE,
        in_turn(manager.round, health.step, housekeeping.step),
        leadership,
        clock,
        period_seconds=settings.shard_manager_round_seconds,
        renew_seconds=lease_seconds / RENEWALS_PER_LEASE,
        on_end=RoundNotes(engine, LEASE, settings.shard_manager_round_seconds, clock.monotonic).note,
    )
    heartbeats = Heartbeats(store, view, leadership, settings, clock, wake=loop.wake)
    app = build_app(heartbeats, identity, open_metrics=settings.metrics_open)
    return ShardManagerProcess(app, loop, orders, engine, view, identity)
