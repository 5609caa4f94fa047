"""SQL of a job against Spark itself: what would run other code, or read files that the job does not name.

The rules of a write are not asked here: this is what is behind them.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from penstock.config.model import JobConfig
from penstock.control.errors import BrokenTask
from penstock.spark.query import result_of
from penstock.spark.settings import SparkSettings
from penstock.spark.sql_guard import without_files_by_name
from tests.support.config.jobs import job

SECRET = "bytes-of-the-admin-token"


def run(spark: SparkSession, sql: str) -> object:
    session = spark.newSession()
    stream = session.readStream.format("rate").load().selectExpr("CAST(value AS STRING) AS word")
    config = JobConfig.model_validate(job({"tables": {"planes": None}}) | {"query": {"sql": sql}})
    settings = SparkSettings(checkpoint_root="", kafka_bootstrap="127.0.0.1:1")
    return result_of(session, {"flights": stream}, config, settings)


@pytest.mark.parametrize(
    "call",
    [
        "reflect('java.lang.System', 'getenv', 'HOME')",
        "`java_method`('java.lang.System', 'getenv', 'HOME')",
        "system.builtin.try_reflect('java.lang.System', 'getenv', 'HOME')",
        "IDENTIFIER('ref' || 'lect')('java.lang.System', 'getenv', 'HOME')",
        "(SELECT reflect('java.lang.System', 'getenv', 'HOME'))",
    ],
)
def test_no_code_but_sparks_own(spark: SparkSession, call: str) -> None:
    with pytest.raises(BrokenTask, match="SQL may not run code of its own") as refused:
        run(spark, f"SELECT word, {call} AS stolen FROM flights")
    assert refused.value.extra["rule"] == "foreign_code"


@pytest.mark.parametrize(
    "call",
    [
        "from_xml(word, 'a STRING', map('rowValidationXSDPath', '/etc/passwd'))",
        "from_avro(CAST(word AS BINARY), '\"string\"', map('avroSchemaUrl', '/etc/passwd'))",
    ],
)
def test_no_option_that_names_a_file(spark: SparkSession, call: str) -> None:
    with pytest.raises(BrokenTask):
        run(spark, f"SELECT {call} AS stolen FROM flights")


def test_a_command_is_refused_before_spark_runs_it(spark: SparkSession, tmp_path: Path) -> None:
    into = tmp_path / "out"
    with pytest.raises(BrokenTask, match="query: "):
        run(spark, f"INSERT OVERWRITE LOCAL DIRECTORY '{into}' USING text SELECT word FROM VALUES ('a') AS t(word)")
    assert not into.exists()


@pytest.mark.parametrize(
    "name", ["text.`{path}`", "delta.`{path}`", "IDENTIFIER('text.`{path}`')", "csv.`file:{path}`"]
)
def test_no_file_by_its_name(spark: SparkSession, tmp_path: Path, name: str) -> None:
    path = tmp_path / "admin.token"
    path.write_text(SECRET)
    if not name.startswith("delta"):
        assert SECRET in str(spark.sql(f"SELECT * FROM {name.format(path=path)}").collect())
    with pytest.raises(BrokenTask, match="query: ") as refused:
        run(spark, f"SELECT word, s.* FROM flights CROSS JOIN {name.format(path=path)} s")
    assert SECRET not in str(refused.value)


def test_penstocks_own_statements_read_files_by_name_afterwards(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("a")
    with pytest.raises(AnalysisException), without_files_by_name(spark):
        spark.sql(f"SELECT * FROM text.`{path}`")
    assert spark.sql(f"SELECT * FROM text.`{path}`").count() == 1


def test_an_ordinary_query_is_plain(spark: SparkSession) -> None:
    assert run(spark, "SELECT upper(word) AS word FROM flights WHERE word IN (SELECT explode(array('1', '2')))")
