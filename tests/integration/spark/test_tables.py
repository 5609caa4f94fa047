"""Tables that a query reads beside its inputs: what they may name, and what their files may say."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import duckdb
import pytest
from pyspark.sql import DataFrame, DataFrameReader, SparkSession

from penstock.config.model import Table
from penstock.control.errors import BrokenTask
from penstock.spark.tables import read_table
from tests.support.spark.session import Feed

FEES = "region STRING, fee DOUBLE, until TIMESTAMP"
GOOD = "north,1.5,2024-01-01 00:00:00\n"


def test_a_header_that_names_other_columns_than_the_schema_is_an_error(spark: SparkSession, tmp_path: Path) -> None:
    """Neither a row in which the values of two columns are exchanged, nor a first row that is lost. Said otherwise, the
    first line is a row."""
    (tmp_path / "fees.csv").write_text("region,shop\nnorth,a\n")
    right, wrong = "region STRING, shop STRING", "shop STRING, region STRING"
    assert _csv(spark, tmp_path, right) == [("north", "a")]
    with pytest.raises(BrokenTask, match=r"(?s)tables.t.header: CSV header does not.*in the same order\. .*Only if"):
        _csv(spark, tmp_path, wrong)
    assert _csv(spark, tmp_path, right, header=False) == [("region", "shop"), ("north", "a")]


@pytest.mark.parametrize(
    ("line", "told"),
    [
        pytest.param("south,1;5,", "fee is '1;5', no DOUBLE", marks=pytest.mark.long),
        ("south,1.5", "the line does not have 3 values: 'south,1.5'"),
        pytest.param("south,1.5,1700000000000", "until is '1700000000000', no TIMESTAMP", marks=pytest.mark.long),
    ],
)
def test_a_line_of_csv_that_is_malformed_names_its_place(
    line: str, told: str, spark: SparkSession, tmp_path: Path
) -> None:
    """As of an input, and not a null that nobody asked for."""
    (tmp_path / "fees.csv").write_text(f"region,fee,until\n{GOOD}{line}\n")
    with pytest.raises(BrokenTask, match=f'tables.t.path: .*/fees.csv, line 3: {re.escape(told)}.*the text "null"'):
        _csv(spark, tmp_path, FEES)
    assert len(_csv(spark, tmp_path, FEES, malformed="null")) == 2


def test_a_number_that_would_keep_spark_busy_for_minutes_names_its_place(spark: SparkSession, tmp_path: Path) -> None:
    """Also the check of the header does not make it."""
    (tmp_path / "fees.csv").write_text("region,fee\nnorth,1\nsouth,1e99999999\n")
    with pytest.raises(BrokenTask, match=r"fees.csv, line 3: .*1,000 digits or more"):
        _csv(spark, tmp_path, "region STRING, fee DECIMAL(7, 2)")


QUOTED = {"delimiter": ";", "quote": "'", "escape": "'", "null_value": "NULL"}
SEMICOLONS = """region;shop;fee;until
'north;east';'it''s';1.5;2024-01-01 00:00:00
NULL;'';NULL;NULL
south;"a,b";-2;
"""


@pytest.mark.long
def test_the_options_of_csv_are_those_of_another_reader(spark: SparkSession, tmp_path: Path) -> None:
    """1. A table has the rows that DuckDB reads. 2. A line is malformed by the same options, and says why."""
    path = tmp_path / "fees.csv"
    path.write_text(SEMICOLONS)
    schema = "region STRING, shop STRING, fee DOUBLE, until TIMESTAMP_NTZ"
    types = {"region": "VARCHAR", "shop": "VARCHAR", "fee": "DOUBLE", "until": "TIMESTAMP"}
    options = {"sep": ";", "quotechar": "'", "escapechar": "'", "na_values": ["NULL", ""], "header": True}
    other = duckdb.read_csv(str(path), dtype=types, allow_quoted_nulls=False, **options).fetchall()
    assert _csv(spark, tmp_path, schema, csv=QUOTED) == other
    assert other[1:] == [(None, "", None, None), ("south", '"a,b"', -2.0, None)]
    for line, told in (
        ("NULL;NULL;1e400;NULL", "out of the range of their types, or of the years 1 to 9999: fee"),
        ("NULL;NULL;null;NULL", "fee is 'null', no DOUBLE"),
        ("NULL,NULL,1,NULL", "the line does not have 4 values"),
    ):
        path.write_text(f"region;shop;fee;until\nNULL;NULL;NULL;NULL\n{line}\n")
        with pytest.raises(BrokenTask, match=re.escape(f"fees.csv, line 3: {told}")):
            _csv(spark, tmp_path, schema, csv=QUOTED)


@pytest.mark.long
def test_comments_tabs_and_names_that_are_the_null_text(spark: SparkSession, tmp_path: Path) -> None:
    """A line of tabs alone is blank for Spark. The header's words are no nulls."""
    path, schema = tmp_path / "fees.csv", "na STRING, fee INT, at INT"
    csv = {"delimiter": "\t", "null_value": "na", "comment": "#", "encoding": "ISO-8859-1"}
    path.write_bytes("# of 2024\nna\tfee\tat\n\t\né\t1\tna\n#\n".encode("latin-1"))
    assert _csv(spark, tmp_path, schema, csv=csv) == [("é", 1, None)]
    path.write_bytes("# of 2024\nna\tfee\tat\né\t1\n".encode("latin-1"))
    with pytest.raises(BrokenTask, match=r"fees\.csv, line 3: the line does not have 3 values: 'é.t1'"):
        _csv(spark, tmp_path, schema, csv=csv)


@pytest.mark.long
@pytest.mark.parametrize("encoding", ["UTF-8", "UTF-16"])
@pytest.mark.parametrize(
    ("row", "told"),
    [
        ("b;x;1e400", "out of the range of their types, or of the years 1 to 9999: n"),
        ("b;x;1,5", "n is '1,5', no DOUBLE"),
        ("b;'x\ny'", "the line does not have 3 values: \"b;'x\\ny'\""),
        ("b;'\ufffd';1", "it has bytes that are not "),
    ],
)
def test_a_row_of_several_lines_that_is_malformed_is_named(
    spark: SparkSession, tmp_path: Path, encoding: str, row: str, told: str
) -> None:
    """Blanks, backslashes, quotes, nulls and empty texts in other rows are what they are."""
    path, schema = tmp_path / "fees.csv", "k STRING, value STRING, n DOUBLE"
    csv = QUOTED | {"multi_line": True, "encoding": encoding}
    good = "k;value;n\n'a\n\n b';'it''s \"; ';-5\nNULL;'';NULL\n\\; \\ ;\n"
    path.write_bytes(good.encode(encoding))
    read = [("a\n\n b", "it's \"; ", -5), (None, "", None), ("\\", " \\ ", None)]
    assert _csv(spark, tmp_path, schema, csv=csv) == read
    path.write_bytes(f"{good}{row}\n".encode(encoding))
    with pytest.raises(BrokenTask, match=re.escape(f"fees.csv, row 4: {told}")):
        _csv(spark, tmp_path, schema, csv=csv)
    assert len(_csv(spark, tmp_path, schema, csv=csv, malformed="null")) == 4


def test_no_file_is_read_as_one_text(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver, which all queries of the host share, may have no room for it."""
    read, asked = DataFrameReader.text, []

    def text(reader: DataFrameReader, *paths: str, **options: object) -> DataFrame:
        asked.append(options)
        return read(reader, *paths, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(DataFrameReader, "text", text)
    (tmp_path / "fees.csv").write_bytes(f"region,fee,until\n{GOOD}".encode() + b"\xff,1,\n" + (GOOD * 3).encode())
    with pytest.raises(BrokenTask, match=r"/fees\.csv, line 3: the value is not UTF-8"):
        _csv(spark, tmp_path, FEES)
    assert asked
    assert not any(options.get("wholetext") for options in asked)


@pytest.mark.long
def test_a_header_that_comes_again_is_malformed(spark: SparkSession, tmp_path: Path) -> None:
    """As in `cat 1.csv 2.csv`. Spark leaves out the first line of each file only, so the other would fail each batch.
    Of text columns it is a row. Where Spark reads a file in blocks, a line has the same number."""
    folder = tmp_path / "fees.csv"
    folder.mkdir()
    header = "region,fee,until\n"
    (folder / "1.csv").write_text(f"{header}{GOOD}")
    spark.conf.set("spark.sql.files.maxPartitionBytes", "40b")
    try:
        (folder / "2.csv").write_text(f"\n{header}{GOOD}")
        assert len(_csv(spark, tmp_path, FEES)) == 2
        (folder / "2.csv").write_text(f"\n{header}{GOOD}\n{GOOD}{header * 2}{GOOD * 3}")
        with pytest.raises(BrokenTask, match=r"/2\.csv, line 6: fee is 'fee', no DOUBLE"):
            _csv(spark, tmp_path, FEES)
        assert ("region", "fee", "until") in _csv(spark, tmp_path, "region STRING, fee STRING, until STRING")
    finally:
        spark.conf.unset("spark.sql.files.maxPartitionBytes")


def test_a_line_of_json_that_is_malformed_names_its_place(spark: SparkSession, tmp_path: Path) -> None:
    """Whoever named the columns: the job or, in part, the files."""
    (tmp_path / "fees.json").write_text('{"region": "north", "fee": 1}\n\n{"region": "south", "fee": "1;5"}\n')
    with pytest.raises(BrokenTask, match=r"fees.json, line 3: fee is '1;5', no DOUBLE"):
        _rows(spark, tmp_path, "fees.json", format="json", table_schema="region STRING, fee DOUBLE")
    (tmp_path / "fees.json").write_text('{"region": "north"}\n{"region"\n')
    with pytest.raises(BrokenTask, match=r"fees.json, line 2: the value is not JSON"):
        _rows(spark, tmp_path, "fees.json", format="json")


def test_a_delta_log_names_no_file_outside_the_roots(spark: SparkSession, tmp_path: Path) -> None:
    """1. A table below a root is read. 2. Its log then names a file elsewhere."""
    root, outside = tmp_path / "root", tmp_path / "outside"
    frame = spark.createDataFrame([(1,)], "n INT")
    frame.write.format("delta").save(str(root / "table"))
    frame.write.format("parquet").save(str(outside))
    assert _rows(spark, root, "table") == [(1,)]
    stolen = next(outside.glob("*.parquet"))
    add = {"path": stolen.as_uri(), "partitionValues": {}, "size": stolen.stat().st_size, "modificationTime": 0}
    log = root / "table" / "_delta_log" / f"{1:020}.json"
    log.write_text(json.dumps({"add": add | {"dataChange": True}}) + "\n")
    with pytest.raises(BrokenTask, match="may not use"):
        _rows(spark, root, "table")


@pytest.mark.long
@pytest.mark.parametrize("table_schema", [None, "k BIGINT, name STRING"])
@pytest.mark.parametrize("name", ["parquet", "delta", "json", "csv"])
def test_a_table_of_each_format_has_its_rows(
    spark: SparkSession, tmp_path: Path, name: str, table_schema: str | None
) -> None:
    """With the columns that its files have, and with those that the job declares. Of CSV Spark guesses the types."""
    rows = [(1, "a, b"), (2, 'say "c"'), (3, None)]
    frame = spark.createDataFrame(rows, "k BIGINT, name STRING").repartition(2)
    frame.write.format(name).options(**({"header": "true"} if name == "csv" else {})).save(str(tmp_path / "names"))
    found = _frame(spark, tmp_path, "names", format=name, **({"table_schema": table_schema} if table_schema else {}))
    assert sorted(map(tuple, found.collect())) == rows
    guessed = "int" if name == "csv" and table_schema is None else "bigint"
    assert found.dtypes == [("k", guessed), ("name", "string")]


@pytest.mark.long
def test_what_a_running_task_sees_of_changed_tables(spark: SparkSession, tmp_path: Path) -> None:
    """1. A query joins a Delta table and a folder of CSV. 2. Both get a row. 3. The next batch has that of Delta only:
    the files of a folder are listed at the start."""
    (tmp_path / "fees.csv").mkdir()
    (tmp_path / "fees.csv" / "1.csv").write_text("k,fee\n1,10\n")
    spark.sql("SELECT 1 AS k, 'a' AS name").write.format("delta").save(str(tmp_path / "names"))
    names = _frame(spark, tmp_path, "names")
    fees = _frame(spark, tmp_path, "fees.csv", format="csv", table_schema="k INT, fee INT")
    feed = Feed(tmp_path / "feed", "k INT")
    feed.add([{"k": 1}, {"k": 2}])
    joined = feed.frame(spark).join(names, "k", "left").join(fees, "k", "left")
    query = joined.writeStream.format("memory").queryName("seen").option("checkpointLocation", str(tmp_path / "c"))
    running = query.start()
    try:
        running.processAllAvailable()
        assert _seen(spark) == [(1, "a", 10), (2, None, None)]
        (tmp_path / "fees.csv" / "2.csv").write_text("k,fee\n2,20\n")
        spark.sql("SELECT 2 AS k, 'b' AS name").write.format("delta").mode("append").save(str(tmp_path / "names"))
        feed.add([{"k": 2}])
        running.processAllAvailable()
        assert _seen(spark)[2:] == [(2, "b", None)]
    finally:
        running.stop()


def _seen(spark: SparkSession) -> list[tuple[object, ...]]:
    return sorted((tuple(row) for row in spark.table("seen").collect()), key=lambda row: (row[0], row[1] or ""))


def _csv(spark: SparkSession, root: Path, schema: str, **more: Any) -> list[tuple[object, ...]]:
    return _rows(spark, root, "fees.csv", format="csv", table_schema=schema, **more)


def _rows(spark: SparkSession, root: Path, name: str, **more: Any) -> list[tuple[object, ...]]:
    return [tuple(row) for row in _frame(spark, root, name, **more).collect()]


def _frame(spark: SparkSession, root: Path, name: str, **more: Any) -> DataFrame:
    table = Table.model_validate({"path": f"{root}/{name}", "format": "delta"} | more)
    return read_table(spark, "t", table, {}, (str(root),))
