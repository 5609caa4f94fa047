"""The State Syncer's parts, put together."""

from __future__ import annotations

from functools import partial

from sqlalchemy import Engine

from penstock.control.clock import Clock, SystemClock
from penstock.control.loop import LeaderLoop
from penstock.store.election import LoopTimes, build_loop
from penstock.store.engine import engine_of
from penstock.store.rounds import LoopWatch
from penstock.store.running import STATE_SYNCER
from penstock.wire.host_task_client import HostTaskClient
from penstock.wire.http import Identity
from penstock.wire.job_client import JobClient
from services.state_syncer.decide.budget import Budget
from services.state_syncer.decide.waves import RolloutPolicy
from services.state_syncer.generations.gc import GenerationGc
from services.state_syncer.generations.rules import Retention
from services.state_syncer.health.reconciler import HealthAlerts
from services.state_syncer.host_tasks.dispatcher import Dispatcher, WantedHostTasks
from services.state_syncer.inputs.reconciler import InputAlerts
from services.state_syncer.profiles.reconciler import ProfileReconciler
from services.state_syncer.profiles.store import ProfileStore
from services.state_syncer.rollback.reconciler import RollbackReconciler
from services.state_syncer.rollback.store import RollbackStore
from services.state_syncer.round.loop import StateSyncer, run_parts
from services.state_syncer.savepoints.reconciler import SavepointReconciler
from services.state_syncer.savepoints.store import SavepointStore
from services.state_syncer.settings import StateSyncerSettings
from services.state_syncer.store.port import SyncStore


def build(settings: StateSyncerSettings, identity: Identity) -> LeaderLoop:
    """The loop with its parts. `identity`: who asks containers for host tasks."""
    clock = SystemClock()
    engine = engine_of(settings)
    dispatcher = Dispatcher(
        HostTaskClient(identity),
        clock.monotonic,
        workers=settings.state_syncer_host_task_workers,
        lost_after_seconds=settings.state_syncer_host_task_lost_seconds,
    )
    token = settings.state_syncer_token.get_secret_value() or None
    writer = JobClient(settings.job_service_url, token, authority=settings.trusted())
    parts = (
        _syncer(engine, WantedHostTasks(dispatcher), settings, clock),
        RollbackReconciler(RollbackStore(engine), writer, clock.monotonic),
        _savepoint_reconciler(engine, WantedHostTasks(dispatcher), settings),
        _generation_gc(engine, WantedHostTasks(dispatcher), settings, clock),
        ProfileReconciler(ProfileStore(engine), WantedHostTasks(dispatcher)),
        InputAlerts(engine, clock.monotonic),
        HealthAlerts(engine, clock.monotonic),
        LoopWatch(engine, STATE_SYNCER, clock.monotonic),
    )

    def rounds(leader_epoch: int) -> None:
        run_parts(parts, leader_epoch, partial(loop.wake_in, settings.state_syncer_await_seconds))

    times = LoopTimes(
        period=settings.state_syncer_period_seconds,
        lease=settings.state_syncer_lease_seconds,
        renew=settings.state_syncer_renew_seconds,
        gather=settings.state_syncer_gather_seconds,
    )
    url = settings.address(settings.port, settings.public_url)
    loop = build_loop(STATE_SYNCER, rounds, engine, clock, times, holder=settings.identity(), url=url)
    dispatcher.on_news = loop.wake
    return loop


def _syncer(engine: Engine, host_tasks: WantedHostTasks, settings: StateSyncerSettings, clock: Clock) -> StateSyncer:
    budget = Budget(
        settings.state_syncer_blast_share,
        settings.state_syncer_blast_count,
        settings.state_syncer_rescale_count,
        settings.state_syncer_initialize_count,
        settings.state_syncer_copy_count,
    )
    rollouts = RolloutPolicy(
        settings.state_syncer_rollout_share,
        settings.state_syncer_healthy_seconds,
        settings.state_syncer_unhealthy_seconds,
    )
    return StateSyncer(SyncStore(engine), clock.now, host_tasks, budget=budget, rollouts=rollouts)


def _savepoint_reconciler(
    engine: Engine, host_tasks: WantedHostTasks, settings: StateSyncerSettings
) -> SavepointReconciler:
    days = settings.state_syncer_savepoint_days
    return SavepointReconciler(
        SavepointStore(engine),
        host_tasks,
        keep_count=settings.state_syncer_savepoints_kept,
        keep_seconds=None if days is None else days * 86_400,
    )


def _generation_gc(
    engine: Engine, host_tasks: WantedHostTasks, settings: StateSyncerSettings, clock: Clock
) -> GenerationGc:
    retention = Retention(
        count=settings.state_syncer_generations_kept,
        seconds=settings.state_syncer_generation_hours * 3600,
        at_once=settings.state_syncer_generations_at_once,
    )
    look_seconds = settings.state_syncer_generation_look_seconds
    return GenerationGc(engine, host_tasks, clock.monotonic, retention, look_seconds=look_seconds)
