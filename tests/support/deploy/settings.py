"""Which settings the processes know, to find names in files of deployment that mean nothing to them."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import BaseModel

from penstock.cli.settings import CliSettings
from penstock.spark.settings import SparkSettings
from services.auto_scaler.settings import AutoScalerSettings
from services.console.settings import ConsoleSettings
from services.job_service.settings import JobServiceSettings
from services.shard_manager.settings import ShardManagerSettings
from services.state_syncer.settings import StateSyncerSettings
from services.task_manager.settings import TaskManagerSettings
from services.task_service.settings import TaskServiceSettings

_OF: Mapping[str, tuple[type[BaseModel], ...]] = {
    # People run the CLI in its container.
    "job_service": (JobServiceSettings, CliSettings),
    "state_syncer": (StateSyncerSettings,),
    "task_service": (TaskServiceSettings,),
    "shard_manager": (ShardManagerSettings,),
    "auto_scaler": (AutoScalerSettings,),
    "console": (ConsoleSettings,),
    "task_manager": (TaskManagerSettings, SparkSettings),
}
_THIS_MACHINE = ("http://127.0.0.1:", "127.0.0.1:", "postgresql://127.0.0.1:")

# The image says the first, and the second is among processes of one container.
_NOT_NEEDED = {"PENSTOCK_HOST", "PENSTOCK_SPARK_DRIVER_HOST"}


def known(service: str) -> set[str]:
    """The variables that the service reads."""
    return {_variable(name) for settings in _OF[service] for name in settings.model_fields}


def needed(service: str) -> set[str]:
    """Those without a default, or whose default is an address of this machine: no container can do with it."""
    settings = _OF[service] if service == "task_manager" else _OF[service][:1]
    fields = {_variable(name): field for each in settings for name, field in each.model_fields.items()}
    found = {name for name, field in fields.items() if field.is_required() or _is_local(field.default)}
    return found - _NOT_NEEDED - ({"PENSTOCK_DATABASE_URL"} if service == "console" else set())


def _variable(field: str) -> str:
    return f"PENSTOCK_{field}".upper()


def _is_local(default: object) -> bool:
    return isinstance(default, str) and (default.startswith(_THIS_MACHINE) or default == "127.0.0.1")
