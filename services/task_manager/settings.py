"""Settings of the Task Manager (`PENSTOCK_*`). The settings of its Spark hosts are in `penstock.spark.settings`."""

from __future__ import annotations

import os
import shutil
import socket
from pathlib import Path

import psutil
from pydantic import Field
from pydantic_settings import SettingsConfigDict

from penstock.config.declare import Identifier, Name
from penstock.control.settings import CommonSettings
from penstock.tasks.dimensions import NETWORK
from penstock.wire.cluster import Capacity, Identity
from services.task_manager.decide.model import Backoff, Limits, LoadPeriods
from services.task_manager.hosts.orphans import MARK
from services.task_manager.loops.periods import Periods


class TaskManagerSettings(CommonSettings):
    """The periods have the defaults of 002 section IV."""

    model_config = SettingsConfigDict(env_prefix="PENSTOCK_", extra="ignore")

    container: Name = Field(
        default_factory=lambda: socket.gethostname().lower(),
        description="name; must never change (default: the host's name)",
    )
    port: int = Field(7100, description="port of the HTTP side")
    public_url: str | None = Field(None, description="address for other processes (default: host and port)")
    region: Name = Field("local", description="region of the container")
    cpu_cores: float | None = Field(None, gt=0, description="capacity (default: all cores of the machine)")
    memory_bytes: int | None = Field(None, gt=0, description="capacity (default: all memory of the machine)")
    disk_bytes: int | None = Field(None, gt=0, description="capacity (default: the free space)")
    network_bytes_per_second: float = Field(125e6, gt=0, description="capacity, both directions together")
    further_capacity: dict[Identifier, float] = Field(
        default_factory=dict, description="capacity in further dimensions, by name (JSON)"
    )
    container_labels: dict[Name, str] = Field(default_factory=dict, description="labels that jobs may ask for (JSON)")
    task_service_url: str = Field("http://127.0.0.1:7072", description="addresses, comma separated")
    shard_manager_url: str = Field("http://127.0.0.1:7073", description="addresses, comma separated")

    heartbeat_seconds: float = Field(10.0, gt=0, description="time between two heartbeats")
    heartbeat_timeout_seconds: float = Field(5.0, gt=0, description="longest wait for an answer to a heartbeat")
    container_lease_seconds: float = Field(
        40.0, gt=0, description="lease taken from the store; as in the Shard Manager"
    )
    lease_stop_seconds: float = Field(
        10.0, gt=0, le=10.0, description="time to stop after the lease; then hosts are killed"
    )
    retry_seconds: float = Field(2.0, gt=0, description="pause after a failed call")
    reconcile_seconds: float = Field(1.0, gt=0, description="time between two ticks without events")
    full_fetch_seconds: float = Field(60.0, gt=0, description="time between two full snapshots of specs")
    delta_wait_seconds: float = Field(20.0, gt=0, description="longest wait for a delta of specs")
    report_seconds: float = Field(2.0, gt=0, description="time between two reports without events")
    load_window_seconds: float = Field(600.0, gt=0, description="a task's load is its mean use over this time")
    load_first_seconds: float = Field(
        60.0, ge=0, description="a task's load is unknown until it was measured this long"
    )
    load_report_seconds: float = Field(600.0, gt=0, description="time between two reports of a task's load")
    shutdown_seconds: float = Field(10.0, gt=0, description="time for tasks to stop at SIGTERM")

    tasks_per_host: int = Field(100, ge=1, description="most tasks of a shared host")
    warm_hosts: int = Field(1, ge=0, description="shared hosts kept up, idle or busy")
    host_tasks_per_host: int = Field(2, ge=1, description="host tasks that a shared host does at once; others wait")
    stop_seconds: float = Field(30.0, gt=0, description="time for a task to stop; then its host is killed")
    start_seconds: float = Field(180.0, gt=0, description="time for a task to start; then it is stopped")
    host_start_seconds: float = Field(180.0, gt=0, description="time for a host to start; then it is killed")
    idle_host_seconds: float = Field(300.0, ge=0, description="time after which an idle shared host ends")
    healthy_seconds: float = Field(60.0, gt=0, description="time of running after which crashes are forgotten")
    crash_first_seconds: float = Field(1.0, ge=0, description="back-off after the second crash in a row; doubles")
    crash_cap_seconds: float = Field(60.0, ge=0, description="longest back-off after crashes")
    broken_first_seconds: float = Field(10.0, ge=0, description="back-off after a failure that only a change can mend")
    broken_cap_seconds: float = Field(600.0, ge=0, description="longest back-off after such failures")

    def folder(self) -> Path:
        """The folder of this container's files."""
        return (self.data_dir / "containers" / self.container).absolute()

    def identity_of_container(self) -> Identity:
        """The container's name, address and capacity."""
        url = self.public_url or f"http://{self.host}:{self.port}"
        return Identity(
            container=self.container,
            url=url,
            region=self.region,
            capacity=self._capacity(),
            labels=self.container_labels,
        )

    def limits(self) -> Limits:
        """The bounds of reconciliation."""
        return Limits(
            tasks_per_host=self.tasks_per_host,
            warm_hosts=self.warm_hosts,
            host_tasks_per_host=self.host_tasks_per_host,
            stop_seconds=self.stop_seconds,
            lease_stop_seconds=self.lease_stop_seconds,
            start_seconds=self.start_seconds,
            host_start_seconds=self.host_start_seconds,
            idle_host_seconds=self.idle_host_seconds,
            healthy_seconds=self.healthy_seconds,
            crash_backoff=Backoff(self.crash_first_seconds, self.crash_cap_seconds),
            broken_backoff=Backoff(self.broken_first_seconds, self.broken_cap_seconds),
            loads=LoadPeriods(self.load_window_seconds, self.load_first_seconds, self.load_report_seconds),
        )

    def periods(self) -> Periods:
        """The periods of the loops."""
        return Periods(
            tick=self.reconcile_seconds,
            heartbeat=self.heartbeat_seconds,
            retry=min(self.retry_seconds, self.heartbeat_seconds),
            lease=self.container_lease_seconds,
            full_fetch=self.full_fetch_seconds,
            delta_wait=self.delta_wait_seconds,
            report=self.report_seconds,
        )

    def _capacity(self) -> Capacity:
        folder = self.folder()
        folder.mkdir(parents=True, exist_ok=True)
        return Capacity(
            cpu_cores=self.cpu_cores or float(psutil.cpu_count() or 1),
            memory_bytes=self.memory_bytes or psutil.virtual_memory().total,
            disk_bytes=self.disk_bytes or shutil.disk_usage(folder).free,
            further={NETWORK: self.network_bytes_per_second, **self.further_capacity},
        )


def mark_children(folder: Path) -> None:
    """Puts the container's folder into the environment of all later child processes; `orphans` finds them by it."""
    os.environ[MARK] = str(folder)
