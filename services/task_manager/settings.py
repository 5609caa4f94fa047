"""Settings of the Task Manager (`PENSTOCK_*`). The settings of its Spark hosts are in `penstock.spark.settings`."""

from __future__ import annotations

import shutil
import socket
from pathlib import Path

import psutil
from pydantic import Field
from pydantic_settings import SettingsConfigDict

from penstock.config.declare import Identifier, Name
from penstock.control.settings import CommonSettings
from penstock.tasks.dimensions import NETWORK
from penstock.wire.cluster import Amount, Capacity, Identity, Labels
from services.task_manager.decide.model import Limits


class TaskManagerSettings(CommonSettings, Limits):
    """The periods have the defaults of Turbine, section IV. Those of decisions are inherited."""

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
    further_capacity: dict[Identifier, Amount] = Field(
        default_factory=dict, description="capacity in further dimensions, by name (JSON)"
    )
    container_labels: Labels = Field(default_factory=dict, description="labels that jobs may ask for (JSON)")
    task_service_url: str = Field("http://127.0.0.1:7072", description="addresses, comma separated")
    shard_manager_url: str = Field("http://127.0.0.1:7073", description="addresses, comma separated")

    heartbeat_seconds: float = Field(10.0, gt=0, description="time between two heartbeats")
    heartbeat_timeout_seconds: float = Field(5.0, gt=0, description="longest wait for an answer to a heartbeat")
    container_lease_seconds: float = Field(
        40.0, gt=0, description="lease taken from the store; as in the Shard Manager"
    )
    lease_spread_seconds: float = Field(
        10.0,
        ge=0,
        description="time within which containers turn to the store when no service renews their lease",
    )
    retry_seconds: float = Field(2.0, gt=0, description="pause after a failed call")
    reconcile_seconds: float = Field(1.0, gt=0, description="time between two ticks without events")
    full_fetch_seconds: float = Field(
        60.0, gt=0, description="least time between two full snapshots, while specs differ from the Task Service's"
    )
    full_spread_seconds: float = Field(
        60.0, ge=0, description="longest time until a full snapshot, after specs differ from the Task Service's"
    )
    delta_wait_seconds: float = Field(20.0, gt=0, description="longest wait for a delta of specs")
    report_seconds: float = Field(2.0, gt=0, description="time between two looks for something to report")
    report_quiet_seconds: float = Field(
        5.0,
        ge=0,
        le=8,
        description="time between two reports while nothing is new; at most 8, since a container that is silent for "
        "12 s is shown as lost or unknown, and rollouts of its jobs wait",
    )
    report_figures_seconds: float = Field(
        15.0, ge=0, description="time between two reports of tasks of which only measurements changed"
    )
    full_report_seconds: float = Field(600.0, ge=0, description="time between two reports of all tasks")
    delta_gap_seconds: float = Field(
        0.2, ge=0, description="pause after a delta with changes, so that many commits share one fetch"
    )
    report_gap_seconds: float = Field(0.2, ge=0, description="least time between two heartbeats or two reports")
    environments_bytes: int = Field(
        4 * 2**30,
        ge=0,
        description="most disk for environments of packages; the longest unused go, never one of a host",
    )
    shutdown_seconds: float = Field(10.0, gt=0, description="time for tasks to stop at SIGTERM")

    def folder(self) -> Path:
        """The folder of this container's files."""
        return (self.data_dir / "containers" / self.container).absolute()

    @property
    def retry_pause_seconds(self) -> float:
        """The pause after a failed call: never longer than that between heartbeats."""
        return min(self.retry_seconds, self.heartbeat_seconds)

    def identity_of_container(self) -> Identity:
        """The container's name, address and capacity."""
        url = self.address(self.port, self.public_url)
        return Identity(
            container=self.container,
            url=url,
            region=self.region,
            capacity=self._capacity(),
            labels=self.container_labels,
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
