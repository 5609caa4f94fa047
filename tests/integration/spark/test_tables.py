"""Tables that a query reads beside its inputs: what they may name, and what their files may say."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from penstock.config.model import Table
from penstock.control.errors import BrokenTask
from penstock.spark.tables import read_table

FEES = "region STRING, fee DOUBLE, until TIMESTAMP"
GOOD = "north,1.5,2024-01-01 00:00:00\n"


def test_a_header_that_names_other_columns_than_the_schema_is_an_error(spark: SparkSession, tmp_path: Path) -> None:
    """Neither a row in which the values of two columns are exchanged, nor a first row that is lost. Said otherwise, the
    first line is a row."""
    (tmp_path / "fees.csv").write_text("region,shop\nnorth,a\n")
    right, wrong = "region STRING, shop STRING", "shop STRING, region STRING"
    assert _csv(spark, tmp_path, right) == [("north", "a")]
    with pytest.raises(BrokenTask, match=r"(?s)tables.t.header: CSV header does not.*set tables.t.header to false"):
        _csv(spark, tmp_path, wrong)
    assert _csv(spark, tmp_path, right, header=False) == [("region", "shop"), ("north", "a")]


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("south,1;5,", "fee is '1;5', no DOUBLE"),
        ("south,1.5", "it does not have 3 values: 'south,1.5'"),
        ("south,1.5,1700000000000", "until is '1700000000000', no TIMESTAMP"),
    ],
)
def test_a_line_of_csv_that_is_malformed_names_its_place(
    line: str, told: str, spark: SparkSession, tmp_path: Path
) -> None:
    """As of an input, and not a null that nobody asked for."""
    (tmp_path / "fees.csv").write_text(f"region,fee,until\n{GOOD}{line}\n")
    with pytest.raises(BrokenTask, match=f"tables.t.path: .*/fees.csv, line 3: {re.escape(told)}"):
        _csv(spark, tmp_path, FEES)
    assert len(_csv(spark, tmp_path, FEES, malformed="null")) == 2


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


def _csv(spark: SparkSession, root: Path, schema: str, **more: Any) -> list[tuple[object, ...]]:
    return _rows(spark, root, "fees.csv", format="csv", table_schema=schema, **more)


def _rows(spark: SparkSession, root: Path, name: str, **more: Any) -> list[tuple[object, ...]]:
    table = Table.model_validate({"path": f"{root}/{name}", "format": "delta"} | more)
    return [tuple(row) for row in read_table(spark, "t", table, {}, (str(root),)).collect()]
