"""The queries of the examples, each on its rows as a batch: `expected.jsonl` is what comes out.

`tests/e2e/test_examples.py` runs them as streams, by the commands of their READMEs.
"""

from __future__ import annotations

import json
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.descriptor_pb2 import FieldDescriptorProto
from pyspark.cloudpickle import register_pickle_by_value
from pyspark.sql import DataFrame, SparkSession

from penstock.config.descriptor_set import files_of
from penstock.config.model import JobConfig
from penstock.config.validate import check_merged
from tests.tidy.source import REPOSITORY

EXAMPLES = REPOSITORY / "deploy" / "examples"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
Rows = list[dict[str, Any]]

# By example: its jobs in their order, each with the input that has the rows of a file, or the result of the job before.
JOBS = {
    "filter": {"job.json": {"flights": "flights.jsonl"}},
    "windows": {"job.json": {"clicks": "clicks.jsonl"}},
    "join": {"job.json": {"orders": "orders.jsonl", "payments": "payments.jsonl"}},
    "totals": {"job.json": {"bookings": "bookings.jsonl"}},
    "latest": {"job.json": {"readings": "readings.jsonl"}},
    "intake": {"job.json": {"readings": "readings.jsonl"}},
    "shuffle": {"shuffle.json": {"views": "views.jsonl"}, "counts.json": {"views": "shuffle.json"}},
    "protobuf": {"encode.json": {"orders": "orders.jsonl"}, "sales.json": {"orders": "encode.json"}},
    "alarms": {"job.json": {"readings": "readings.jsonl"}},
}


def config_of(example: str, job: str) -> JobConfig:
    return check_merged(json.loads((EXAMPLES / example / job).read_text()))


def schema_of(config: JobConfig, name: str) -> str:
    """The columns of an input or a stream."""
    source = config.inputs[name] if name in config.inputs else config.streams[name]
    return str(source.value_schema)


def rows_of(frame: DataFrame) -> Rows:
    return [json.loads(line) for line in frame.toJSON().collect()]


def expected(example: str) -> Rows:
    return [json.loads(line) for line in (EXAMPLES / example / "expected.jsonl").read_text().splitlines()]


def _run(session: SparkSession, config: JobConfig, inputs: dict[str, DataFrame], package: Path) -> DataFrame:
    for name, frame in inputs.items():
        frame.createOrReplaceTempView(name)
    if config.query.sql is not None:
        return session.sql(config.query.sql)
    module, _, function = str(config.query.python).partition(":")
    session.conf.set("spark.sql.streaming.stateStore.providerClass", ROCKSDB)
    assert not session.streams.active  # makes what finds state stores
    frame: DataFrame = getattr(_imported(package, module), function)(session, inputs, config.args)
    return frame


def _imported(package: Path, name: str) -> Any:
    """A module of a package's folder. It is sent to Spark's Python workers whole: they cannot import it."""
    spec = spec_from_file_location(name, package / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    sys.modules[name] = module
    register_pickle_by_value(module)
    return module


def test_the_jobs_of_protobuf_have_the_message_of_its_file() -> None:
    """As `protoc` would describe it."""
    text = (EXAMPLES / "protobuf" / "order.proto").read_text()
    reads, writes = config_of("protobuf", "sales.json").inputs["orders"], config_of("protobuf", "encode.json").output
    (file,) = files_of(str(reads.value_schema))
    assert reads.value_schema == writes.value_schema  # type: ignore[union-attr]
    (order,), (status,) = file.message_type, file.enum_type
    kinds = {FieldDescriptorProto.Type.Value(f"TYPE_{kind.upper()}"): kind for kind in ("string", "int64", "uint32")}
    fields = [f"  {kinds.get(field.type, status.name)} {field.name} = {field.number};" for field in order.field]
    names = [f"  {value.name} = {value.number};" for value in status.value]
    assert text.splitlines() == [
        f'syntax = "{file.syntax}";', "", f"package {file.package};", "",
        f"enum {status.name} {{", *names, "}", "", f"message {order.name} {{", *fields, "}",
    ]  # fmt: skip


@pytest.mark.parametrize("example", JOBS)
def test_the_query_gives_the_expected_rows(spark: SparkSession, example: str) -> None:
    session = spark.newSession()
    results: dict[str, DataFrame] = {}
    for job, sources in JOBS[example].items():
        config = config_of(example, job)
        inputs = {
            name: results[source]
            if source in results
            else session.read.schema(schema_of(config, name)).json(str(EXAMPLES / example / source))
            for name, source in sources.items()
        }
        results[job] = _run(session, config, inputs, EXAMPLES / example / "package")
    found = rows_of(list(results.values())[-1])
    if example == "windows":  # the last rows only close the windows before them
        found = [row for row in found if not row["minute"].startswith("2026-01-01T12:10")]
        found = [{**row, "minute": f"{row['minute'][:19]}Z"} for row in found]
    assert sorted(found, key=str) == sorted(expected(example), key=str)
