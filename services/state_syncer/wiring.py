"""The State Syncer's parts, put together."""

from __future__ import annotations

from sqlalchemy import Engine

from penstock.control.clock import Clock, SystemClock
from penstock.control.loop import LeaderLoop
from penstock.store.engine import connect
from penstock.store.running import STATE_SYNCER
from penstock.wire.job_client import JobClient
from penstock.wire.leader import LoopTimes, build_loop
from penstock.wire.redistribution_client import RedistributionClient
from services.state_syncer.budget import Budget
from services.state_syncer.executor import Asker, ContainerExecutor
from services.state_syncer.generation_keeper import GenerationKeeper
from services.state_syncer.generations import Retention
from services.state_syncer.loop import StateSyncer
from services.state_syncer.rollback_keeper import RollbackKeeper
from services.state_syncer.rollback_store import PostgresRollbackStore
from services.state_syncer.savepoint_keeper import SavepointKeeper
from services.state_syncer.savepoint_store import PostgresSavepointStore
from services.state_syncer.settings import StateSyncerSettings
from services.state_syncer.store import PostgresSyncStore
from services.state_syncer.waves import RolloutPolicy


def build(settings: StateSyncerSettings) -> LeaderLoop:
    """The loop with its parts."""
    clock = SystemClock()
    engine = connect(settings.database_url)
    client = RedistributionClient()
    executors = [_executor(client, settings, clock) for _ in range(3)]
    of_plans, of_savepoints, of_generations = executors
    writer = JobClient(settings.job_service_url, settings.state_syncer_token.get_secret_value() or None)
    parts = (
        _syncer(engine, of_plans, settings, clock),
        RollbackKeeper(PostgresRollbackStore(engine), writer, await_seconds=settings.state_syncer_await_seconds),
        _savepoint_keeper(engine, of_savepoints, settings),
        _generation_keeper(engine, of_generations, settings, clock),
    )

    def rounds(leader_epoch: int) -> None:
        for each in parts:
            each.round(leader_epoch)

    times = LoopTimes(
        period=settings.state_syncer_period_seconds,
        lease=settings.state_syncer_lease_seconds,
        renew=settings.state_syncer_renew_seconds,
        gather=settings.state_syncer_gather_seconds,
    )
    url = f"http://{settings.host}:{settings.port}"
    loop = build_loop(STATE_SYNCER, rounds, engine, clock, times, holder=settings.identity(), url=url)
    for part in parts:
        part.wake_in = loop.wake_in
    for executor in executors:
        executor.on_news = loop.wake
    return loop


def _executor(client: RedistributionClient, settings: StateSyncerSettings, clock: Clock) -> ContainerExecutor:
    return ContainerExecutor(
        client,
        clock.monotonic,
        workers=settings.state_syncer_rescale_workers,
        lost_after_seconds=settings.state_syncer_rescale_lost_seconds,
    )


def _syncer(engine: Engine, executor: ContainerExecutor, settings: StateSyncerSettings, clock: Clock) -> StateSyncer:
    return StateSyncer(
        PostgresSyncStore(engine),
        clock.now,
        await_seconds=settings.state_syncer_await_seconds,
        executor=executor,
        budget=Budget(
            settings.state_syncer_blast_share, settings.state_syncer_blast_count, settings.state_syncer_rescale_count
        ),
        rollouts=RolloutPolicy(
            settings.state_syncer_rollout_share,
            settings.state_syncer_healthy_seconds,
            settings.state_syncer_unhealthy_seconds,
        ),
        initialize_count=settings.state_syncer_initialize_count,
    )


def _savepoint_keeper(engine: Engine, executor: Asker, settings: StateSyncerSettings) -> SavepointKeeper:
    days = settings.state_syncer_savepoint_days
    return SavepointKeeper(
        PostgresSavepointStore(engine),
        executor,
        await_seconds=settings.state_syncer_await_seconds,
        keep_count=settings.state_syncer_savepoints_kept,
        keep_seconds=None if days is None else days * 86_400,
    )


def _generation_keeper(
    engine: Engine, executor: Asker, settings: StateSyncerSettings, clock: Clock
) -> GenerationKeeper:
    retention = Retention(
        count=settings.state_syncer_generations_kept,
        seconds=settings.state_syncer_generation_hours * 3600,
        at_once=settings.state_syncer_generations_at_once,
    )
    return GenerationKeeper(
        engine,
        executor,
        clock.monotonic,
        retention,
        await_seconds=settings.state_syncer_await_seconds,
        look_seconds=settings.state_syncer_generation_look_seconds,
    )
