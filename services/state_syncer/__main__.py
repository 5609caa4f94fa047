"""The State Syncer process: `python -m services.state_syncer`."""

from __future__ import annotations

from penstock.control.clock import SystemClock
from penstock.control.logs import configure
from penstock.control.loop import LeaderLoop
from penstock.store.engine import CHANGED_EXPECTED, REPORTED_STOP, connect
from penstock.store.running import STATE_SYNCER
from penstock.wire.job_client import JobClient
from penstock.wire.leader import LoopTimes, build_loop, serve_loop
from penstock.wire.redistribution_client import RedistributionClient
from services.state_syncer.budget import Budget
from services.state_syncer.executor import ContainerExecutor
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
    executor, savepoint_executor, generation_executor = (
        ContainerExecutor(
            client,
            clock.monotonic,
            workers=settings.state_syncer_rescale_workers,
            lost_after_seconds=settings.state_syncer_rescale_lost_seconds,
        )
        for _ in range(3)
    )
    await_seconds = settings.state_syncer_await_seconds
    days = settings.state_syncer_savepoint_days
    keeper = SavepointKeeper(
        PostgresSavepointStore(engine),
        savepoint_executor,
        await_seconds=await_seconds,
        keep_count=settings.state_syncer_savepoints_kept,
        keep_seconds=None if days is None else days * 86_400,
    )
    retention = Retention(
        count=settings.state_syncer_generations_kept,
        seconds=settings.state_syncer_generation_hours * 3600,
        at_once=settings.state_syncer_generations_at_once,
    )
    collector = GenerationKeeper(engine, generation_executor, clock.monotonic, retention, await_seconds=await_seconds)
    writer = JobClient(settings.job_service_url, settings.state_syncer_token.get_secret_value() or None)
    rollbacks = RollbackKeeper(PostgresRollbackStore(engine), writer, await_seconds=await_seconds)
    syncer = StateSyncer(
        PostgresSyncStore(engine),
        clock.now,
        await_seconds=await_seconds,
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
    times = LoopTimes(
        period=settings.state_syncer_period_seconds,
        lease=settings.state_syncer_lease_seconds,
        renew=settings.state_syncer_renew_seconds,
        gather=settings.state_syncer_gather_seconds,
    )
    url = f"http://{settings.host}:{settings.port}"

    parts = (syncer, rollbacks, keeper, collector)

    def rounds(leader_epoch: int) -> None:
        for each in parts:
            each.round(leader_epoch)

    loop = build_loop(STATE_SYNCER, rounds, engine, clock, times, holder=settings.identity(), url=url)
    for part in parts:
        part.wake_in = loop.wake_in
    for asker in (executor, savepoint_executor, generation_executor):
        asker.on_news = loop.wake
    return loop


def main() -> None:
    """Runs until SIGTERM or SIGINT."""
    settings = StateSyncerSettings()
    configure("state_syncer", log_format=settings.log_format, level=settings.log_level)
    serve_loop("state_syncer", build(settings), settings, settings.port, (CHANGED_EXPECTED, REPORTED_STOP))


if __name__ == "__main__":
    main()
