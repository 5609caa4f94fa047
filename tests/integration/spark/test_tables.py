"""Tables that a query reads beside its inputs: what they may name, and what their files may say."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from penstock.config.model import Table
from penstock.control.errors import BrokenTask
from penstock.spark.sources import read_table


def test_a_header_that_names_other_columns_than_the_schema_is_an_error(spark: SparkSession, tmp_path: Path) -> None:
    """Not a row in which the values of two columns are exchanged."""
    (tmp_path / "fees.csv").write_text("region,shop\nnorth,a\n")
    right, wrong = "region STRING, shop STRING", "shop STRING, region STRING"
    assert _rows(spark, tmp_path, "fees.csv", right) == [("north", "a")]
    with pytest.raises(Py4JJavaError, match="CSV header does not conform"):
        _rows(spark, tmp_path, "fees.csv", wrong)


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


def _rows(spark: SparkSession, root: Path, name: str, schema: str | None = None) -> list[tuple[object, ...]]:
    table = Table(path=f"{root}/{name}", format="delta" if schema is None else "csv", table_schema=schema)
    return [tuple(row) for row in read_table(spark, "t", table, {}, (str(root),)).collect()]
