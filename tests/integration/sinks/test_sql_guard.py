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
from penstock.spark.sql_guard import require_expression, require_query, without_files_by_name
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


@pytest.mark.parametrize(
    ("sql", "rule"),
    [
        ("SELECT word FROM flights JOIN default.other USING (word)", "unknown_relation"),
        ("WITH a AS (SELECT * FROM other) SELECT word FROM flights JOIN a USING (word)", "unknown_relation"),
        (
            "SELECT word, (SELECT max(x) FROM (SELECT 1 AS x UNION ALL SELECT y FROM other)) FROM flights",
            "unknown_relation",
        ),
        ("SELECT word FROM flights WHERE EXISTS (SELECT 1 FROM `text.` WHERE true)", "unknown_relation"),
        ("SELECT word, IDENTIFIER('ref' || 'lect')(word) FROM flights", "computed_name"),
        ("SELECT IDENTIFIER('word') FROM flights", "computed_name"),
        ("SELECT word FROM IDENTIFIER(lower('flights'))", "computed_name"),
        ("SELECT word, transform(array(1), x -> `schema_of_xml`('a')) FROM flights", "foreign_files"),
        ("SELECT TRANSFORM(word) USING 'cat' AS (word) FROM flights", "foreign_code"),
        ("SELECT word FROM flights |> SET word = schema_of_xml('a')", "foreign_files"),
        ("SELECT word FROM flights |> SET word = (SELECT TRANSFORM(y) USING 'cat' FROM other)", "unknown_relation"),
        ("SELECT sum(1) OVER w FROM flights WINDOW w AS (PARTITION BY reflect('a', 'b'))", "foreign_code"),
        ("SELECT * FROM other VERSION AS OF 0", "unknown_relation"),
        ("WITH `text./p` AS (SELECT 1) SELECT word FROM flights, text.`/p`", "unknown_relation"),
        ("SELECT word FROM flights LATERAL VIEW `table_changes_by_path`('/t', 0) AS a", "unknown_relation"),
        ("SELECT word FROM flights, table_changes_by_path('/t', 0)", "unknown_relation"),
        ("SELECT xpath_string(word, 'system-property(\"a\")') FROM flights", "foreign_files"),
        ("SELECT word FROM flights ORDER BY system.builtin.reflect('a', 'b')", "foreign_code"),
    ],
)
def test_what_sparks_own_parser_finds_is_refused_before_it_is_resolved(
    spark: SparkSession, sql: str, rule: str
) -> None:
    with pytest.raises(BrokenTask) as refused:
        require_query(spark, sql, ["flights"])
    assert refused.value.extra["rule"] == rule


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("word = (SELECT max(x) FROM other)", "per_row"),
        ("from_xml(word, 'a STRING')", "foreign_files"),
        ("try_reflect('a', 'b') AS a", "foreign_code"),
        ("IDENTIFIER(lower('WORD'))", "computed_name"),
    ],
)
def test_an_expression_is_refused_in_the_same_way(spark: SparkSession, text: str, rule: str) -> None:
    with pytest.raises(BrokenTask, match=r"side_outputs\.late\.where: ") as refused:
        require_expression(spark, text, "side_outputs.late.where")
    assert refused.value.extra["rule"] == rule


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


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT upper(word) AS word FROM flights WHERE word IN (SELECT explode(array('1', '2')))",
        "SELECT b AS word FROM flights LATERAL VIEW explode(split(word, '')) a AS b WHERE word > ''",
        "SELECT /*+ BROADCAST(a) */ col AS word FROM flights AS a, LATERAL explode(split(word, ''))",
        "WITH A AS (SELECT * FROM Flights), b AS (SELECT * FROM a) SELECT b.word FROM B b WHERE upper(b.word) > ''",
    ],
)
def test_an_ordinary_query_is_plain(spark: SparkSession, sql: str) -> None:
    assert run(spark, sql)
