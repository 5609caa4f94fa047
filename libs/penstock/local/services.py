"""Which processes make up Penstock on one machine, and the environment each gets. Pure."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from penstock.local.supervisor import ProcessSpec

HOST = "127.0.0.1"
PORTS = {
    "job_service": 7070,
    "state_syncer": 7071,
    "task_service": 7072,
    "shard_manager": 7073,
    "auto_scaler": 7074,
}
FIRST_TASK_MANAGER_PORT = 7100
# By this a Spark host is known among the children of its Task Manager.
HOST_MODULE = "penstock.spark.host"


@dataclass(frozen=True)
class StackPlan:
    """Everything that decides how the processes are started. `ports` maps a process name to its TCP port."""

    data_dir: Path
    database_url: str
    kafka_bootstrap: str
    connections: Mapping[str, str]
    token: str
    syncer_token: str
    task_managers: int
    ports: Mapping[str, int]
    environment: Mapping[str, str]

    def url(self, name: str) -> str:
        return f"http://{HOST}:{self.ports[name]}"


def task_manager_name(index: int) -> str:
    """The process and container name of the Task Manager `index` (from 1)."""
    return f"task_manager_{index}"


def standard_ports(task_managers: int) -> dict[str, int]:
    """The ports of DESIGN.md section 11."""
    managers = {task_manager_name(i): FIRST_TASK_MANAGER_PORT + i - 1 for i in range(1, task_managers + 1)}
    return PORTS | managers


def process_specs(plan: StackPlan) -> tuple[ProcessSpec, ...]:
    """The services, then the Task Managers, in order of start."""
    services = tuple(_spec(plan, name, f"services.{name}", {}) for name in PORTS)
    names = [task_manager_name(i) for i in range(1, plan.task_managers + 1)]
    return services + tuple(_spec(plan, name, "services.task_manager", {"PENSTOCK_CONTAINER": name}) for name in names)


def _spec(plan: StackPlan, name: str, module: str, extra: Mapping[str, str]) -> ProcessSpec:
    env = {**plan.environment, **_shared_environment(plan), "PENSTOCK_PORT": str(plan.ports[name]), **extra}
    return ProcessSpec(name, (sys.executable, "-m", module), env, f"{plan.url(name)}/readyz")


def _shared_environment(plan: StackPlan) -> dict[str, str]:
    return {
        "PENSTOCK_DATABASE_URL": plan.database_url,
        "PENSTOCK_DATA_DIR": str(plan.data_dir),
        "PENSTOCK_URL": plan.url("job_service"),
        "PENSTOCK_JOB_SERVICE_URL": plan.url("job_service"),
        "PENSTOCK_TASK_SERVICE_URL": plan.url("task_service"),
        "PENSTOCK_SHARD_MANAGER_URL": plan.url("shard_manager"),
        "PENSTOCK_SCALER_TOKEN": plan.token,
        "PENSTOCK_STATE_SYNCER_TOKEN": plan.syncer_token,
        "PENSTOCK_KAFKA_BOOTSTRAP": plan.kafka_bootstrap,
        "PENSTOCK_CONNECTIONS": json.dumps(dict(plan.connections)),
        "PENSTOCK_CHECKPOINT_ROOT": str(plan.data_dir / "checkpoints"),
        "PENSTOCK_PACKAGES_ROOT": str(plan.data_dir / "packages"),
    }
