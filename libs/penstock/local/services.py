"""Which processes make up Penstock on one machine, and the environment each gets. Pure."""

from __future__ import annotations

import json
import re
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
    "console": 7077,
}
CONSOLE = "console"
IDENTITY_FOLDER = "identity"
FIRST_TASK_MANAGER_PORT = 7100
PORT_BASE = 7070
KAFKA_PORT = 19092
# Behind the services and before the Task Managers, when the ports have another base.
_KAFKA_AFTER_BASE = 20
MOST_TASK_MANAGERS = 32
ONLY_FOR = {
    "PENSTOCK_SCALER_TOKEN": "auto_scaler",
    "PENSTOCK_STATE_SYNCER_TOKEN": "state_syncer",
    "PENSTOCK_CONSOLE_KEY": "console",
    "PENSTOCK_NOTIFY_TARGETS": "job_service",
    "PENSTOCK_CONNECTIONS": "task_manager",
    "PENSTOCK_SECRETS_ROOT": "task_manager",
}
"""Variables that one service alone gets, by its module; others pass to all."""
_ASK_KAFKA = ("job_service", "task_manager")
# By this a Spark host is known among the children of its Task Manager.
HOST_MODULE = "penstock.spark.host"
# The console asks the Job Service for all that it shows: it learns of no server, no secret and no folder of others.
_OF_THE_CONSOLE = re.compile(
    "PENSTOCK_(JOB_SERVICE_URL|HOST|PORT|CONSOLE_[A-Z_]+|LOG_[A-Z]+|HTTP_[A-Z_]+|AUTHENTICATION)|(?!PENSTOCK_).*"
)


@dataclass(frozen=True)
class StackPlan:
    """Everything that decides how the processes are started. `ports` maps a process name to its TCP port, in
    order of start. `environment` is that of all processes."""

    data_dir: Path
    database_url: str
    kafka_bootstrap: str
    connections: Mapping[str, str]
    ports: Mapping[str, int]
    environment: Mapping[str, str]
    task_manager_database_url: str | None = None
    """The store as Task Managers may use it; None: as `database_url`."""

    @property
    def identity_dir(self) -> Path:
        """By its files the processes of the stack know each other."""
        return self.data_dir / IDENTITY_FOLDER

    def url(self, name: str) -> str:
        return f"http://{HOST}:{self.ports[name]}"


def task_manager_name(index: int) -> str:
    """The process and container name of the Task Manager `index` (from 1)."""
    return f"task_manager_{index}"


def standard_ports(task_managers: int, base: int = PORT_BASE, *, console: bool = True) -> dict[str, int]:
    """The ports in `PORTS`, and those of Task Managers; with another `base` all of them are moved."""
    managers = {task_manager_name(i): FIRST_TASK_MANAGER_PORT + i - 1 for i in range(1, task_managers + 1)}
    wanted = {name: port for name, port in PORTS.items() if console or name != CONSOLE}
    return {name: port - PORT_BASE + base for name, port in (wanted | managers).items()}


def kafka_port(base: int = PORT_BASE) -> int:
    """The port of the embedded Kafka: its usual one, or one near another `base`."""
    return KAFKA_PORT if base == PORT_BASE else base + _KAFKA_AFTER_BASE


def process_specs(plan: StackPlan) -> tuple[ProcessSpec, ...]:
    """The services and Task Managers of `plan.ports`, in order of start."""
    return tuple(_spec(plan, name) for name in plan.ports)


def _spec(plan: StackPlan, name: str) -> ProcessSpec:
    module, own = (name, {}) if name in PORTS else ("task_manager", {"PENSTOCK_CONTAINER": name})
    given = {key: value for key, value in plan.environment.items() if ONLY_FOR.get(key, module) == module}
    if module == "task_manager":
        own["PENSTOCK_DATABASE_URL"] = plan.task_manager_database_url or plan.database_url
        own["PENSTOCK_CONNECTIONS"] = json.dumps(dict(plan.connections))
    if module in _ASK_KAFKA:
        own["PENSTOCK_KAFKA_BOOTSTRAP"] = plan.kafka_bootstrap
    env = {**given, **_shared_environment(plan), "PENSTOCK_PORT": str(plan.ports[name]), **own}
    if module == CONSOLE:
        env = {key: value for key, value in env.items() if _OF_THE_CONSOLE.fullmatch(key)}
    return ProcessSpec(name, (sys.executable, "-m", f"services.{module}"), env, f"{plan.url(name)}/readyz")


def _shared_environment(plan: StackPlan) -> dict[str, str]:
    return {
        "PENSTOCK_DATABASE_URL": plan.database_url,
        "PENSTOCK_DATA_DIR": str(plan.data_dir),
        "PENSTOCK_IDENTITY_DIR": str(plan.identity_dir),
        "PENSTOCK_URL": plan.url("job_service"),
        "PENSTOCK_JOB_SERVICE_URL": plan.url("job_service"),
        "PENSTOCK_TASK_SERVICE_URL": plan.url("task_service"),
        "PENSTOCK_SHARD_MANAGER_URL": plan.url("shard_manager"),
        "PENSTOCK_CHECKPOINT_ROOT": str(plan.data_dir / "checkpoints"),
        "PENSTOCK_PACKAGES_ROOT": str(plan.data_dir / "packages"),
        "PENSTOCK_PATH_ROOTS": json.dumps(path_roots(plan)),
    }


def path_roots(plan: StackPlan) -> list[str]:
    """Below what tables and outputs of jobs may be: folders of the stack, and what PENSTOCK_PATH_ROOTS adds."""
    own = [str(plan.data_dir / folder) for folder in ("outputs", "demo")]
    return [*own, *json.loads(plan.environment.get("PENSTOCK_PATH_ROOTS", "[]"))]
