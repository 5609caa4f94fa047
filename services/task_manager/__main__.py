"""Runs a Task Manager: `python -m services.task_manager`."""

from __future__ import annotations

from functools import partial
from random import Random
from uuid import uuid4

from prometheus_client import REGISTRY

from penstock.control.clock import SystemClock
from penstock.control.errors import TerminalError
from penstock.control.logs import configure
from penstock.control.masks import Masks
from penstock.identity.outgoing import Outgoing
from penstock.identity.process import identity_of
from penstock.identity.roles import Caller, Role
from penstock.local.folder import OwnedFolder
from penstock.spark.access import kept_values
from penstock.spark.parts import found_without_spark
from penstock.spark.settings import SparkSettings
from penstock.store.engine import engine_of
from penstock.wire.app import serve, tls_of
from penstock.wire.http import Identity
from penstock.wire.shard_client import ShardManagerClient
from penstock.wire.task_client import TaskServiceClient
from services.task_manager.api import build_app
from services.task_manager.container import Container
from services.task_manager.hosts.account import prepare
from services.task_manager.hosts.host_logs import HostLogs
from services.task_manager.hosts.orphans import end_orphans
from services.task_manager.hosts.spark_hosts import SparkHosts
from services.task_manager.loops.heartbeats import HeartbeatLoop
from services.task_manager.loops.specs import SpecLoop
from services.task_manager.loops.task_manager import TaskManager
from services.task_manager.membership.relayed_lease import RelayedLease, longest_call
from services.task_manager.membership.stored_lease import StoredLease
from services.task_manager.metrics import ContainerCollector
from services.task_manager.settings import TaskManagerSettings
from services.task_manager.specs.files import IncarnationFile
from services.task_manager.specs.snapshot_file import SnapshotFile


def main() -> None:
    """Serves until SIGTERM; then its tasks and hosts end first."""
    settings = TaskManagerSettings()
    configure("task_manager", log_format=settings.log_format, level=settings.log_level)
    identity = identity_of(settings, Caller(Role.TASK_MANAGER, settings.container))
    folder = settings.folder()
    try:
        OwnedFolder(folder).claim()
    except TerminalError as error:
        raise SystemExit(f"container {settings.container}: {error.detail}") from error
    end_orphans(folder)
    spark = SparkSettings().model_copy(update={"container_folder": folder})
    try:
        prepare(spark, folder / "hosts")
    except TerminalError as error:
        raise SystemExit(error.detail) from error
    masks = Masks()
    manager = build(settings, spark, Outgoing(identity), masks)
    REGISTRY.register(ContainerCollector(manager.container.summary))
    missing = partial(found_without_spark, settings=spark)
    place_of, kept = manager.container.place_of, partial(kept_values, spark)
    logs = HostLogs(settings.container, folder / "hosts", place_of, kept, masks)
    app = build_app(manager.container, identity, open_metrics=settings.metrics_open, missing=missing, logs=logs)
    manager.start()
    try:
        serve(app, settings.host, settings.port, tls=tls_of(identity))
    finally:
        manager.stop(settings.shutdown_seconds)


def build(settings: TaskManagerSettings, spark: SparkSettings, identity: Identity, masks: Masks) -> TaskManager:
    """Connects the parts; starts nothing. `spark`: of its hosts, `masks`: learns the values that they get."""
    clock, random, folder = SystemClock(), Random(), settings.folder()
    limits = settings.for_hosts(spark.progress_interval_seconds)
    hosts = SparkHosts(spark, folder / "hosts", masks, environments_bytes=settings.environments_bytes)
    container = Container(settings.identity_of_container(), limits, hosts, clock, lambda: uuid4().hex)
    timeout_seconds = settings.heartbeat_timeout_seconds

    def seconds_left() -> float:
        return container.summary().lease_seconds_left

    longest = partial(longest_call, lease_seconds=settings.container_lease_seconds)
    authority = ShardManagerClient(
        settings.shard_manager_url,
        timeout_seconds=timeout_seconds,
        identity=identity,
        limit_seconds=lambda: longest(seconds_left(), calls=2),
    )
    leases = RelayedLease(
        settings.container,
        TaskServiceClient(
            settings.task_service_url,
            timeout_seconds=timeout_seconds,
            identity=identity,
            limit_seconds=lambda: longest(seconds_left(), calls=1),
        ),
        StoredLease(engine_of(settings, connections=1), settings.container, timeout_seconds),
        seconds_left,
        clock,
        random,
        spread_seconds=settings.lease_spread_seconds,
    )
    tasks = TaskServiceClient(settings.task_service_url, identity=identity)
    return TaskManager(
        container,
        HeartbeatLoop(container, authority, leases, IncarnationFile(folder), clock, settings),
        SpecLoop(container, tasks, SnapshotFile(folder), clock, settings, random),
        tasks,
        clock,
        settings,
        random,
    )


if __name__ == "__main__":
    main()
