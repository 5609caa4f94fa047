"""Protobuf where its own readers, Spark, or two jobs would each see another value."""

from __future__ import annotations

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from pyspark.sql import SparkSession

from penstock.control.errors import BrokenTask
from penstock.spark.failures import failure_of
from penstock.spark.sinks.kafka import value_of
from tests.integration.spark.test_protobuf import different, output, read, source, written
from tests.support.kafka.protobuf import classes, entry, field, message, text, with_imports
from tests.support.kafka.protobuf_kinds import NAME

FILE = FileDescriptorProto(
    name="strict.proto",
    package="t",
    message_type=[
        message(
            "Strict",
            field(1, "parts", ".t.Strict.PartsEntry", "repeated"),
            field(2, "a", "int32", oneof_index=0, default_value="7"),
            field(3, "b", "string", oneof_index=0),
            nested_type=[
                message("Part", field(1, "n", "int32", "required")),
                entry("PartsEntry", "int32", ".t.Strict.Part"),
            ],
        )
    ],
)
FILE.message_type[0].oneof_decl.add(name="choice")
SET = with_imports(FILE)
(Strict,) = classes(SET, "t.Strict")


def test_what_proto2_requires_and_gives_by_default(spark: SparkSession) -> None:
    """1. An entry of a map without a value is malformed where the value has required fields: there is no such value.
    2. Of a oneof the fields without a value are null, whatever their default."""
    whole = Strict(b="x")
    whole.parts[4].n = 5
    wanted = {
        whole.SerializeToString(): {"parts": {4: {"n": 5}}, "a": None, "b": "x"},
        Strict(a=1).SerializeToString(): {"parts": {}, "a": 1, "b": None},
        b"": {"parts": {}, "a": None, "b": None},
        b"\x0a\x02\x08\x04": "required fields are missing: parts[0].value.n",
    }
    of = source(text(SET), "t.Strict")
    assert different(read(spark, wanted, of), wanted) == {}


@pytest.mark.parametrize(
    ("column", "why"),
    [
        ("CAST(X'61FF' AS STRING) AS f_string", "the column f_string has the text a"),
        ("map(CAST(X'FF' AS STRING), named_struct('n', 1)) AS ms", "which is not UTF-8"),
        ("make_dt_interval(4000000) AS dur", "the column dur has 345600000000 s, which is not a duration of Protobuf"),
    ],
)
def test_a_value_that_readers_refuse_is_not_written(spark: SparkSession, column: str, why: str) -> None:
    with pytest.raises(Exception, match=r"output.value_format") as failed:
        written(spark.range(1).selectExpr(column), output())
    assert why in failure_of(failed.value).error


def test_a_key_is_written_with_the_type_with_which_it_is_read(spark: SparkSession) -> None:
    """Otherwise its row is not in the partition in which readers look for it by Spark's hash."""
    to = output().model_copy(update={"key_columns": ("f_int64",), "key_groups": 4})
    narrow, same = (spark.range(1).selectExpr(f"CAST(5 AS {kind}) AS f_int64") for kind in ("INT", "BIGINT"))
    told = rf"^output.key_columns: the column f_int64 is int, and its field in {NAME} is read as bigint\. .* cast the"
    with pytest.raises(BrokenTask, match=told):
        value_of(narrow, to, "", registers=False)
    value_of(same, to, "", registers=False)
    value_of(narrow, to.model_copy(update={"key_groups": None}), "", registers=False)
