"""Protobuf where its own readers, Spark, or two jobs would each see another value."""

from __future__ import annotations

import pytest
from google.protobuf.descriptor_pb2 import EnumDescriptorProto, EnumValueDescriptorProto, FileDescriptorProto
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from penstock.config.model import KafkaOutput
from penstock.control.errors import BrokenTask
from penstock.spark.failures import failure_of
from penstock.spark.inputs.malformed import decoder_of
from penstock.spark.sinks.kafka import records, value_of
from tests.integration.spark.test_protobuf import different, output, read, source, written
from tests.support.kafka.protobuf import classes, entry, field, message, text, with_imports
from tests.support.kafka.protobuf_kinds import COLUMNS, NAME

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
KEYED = FileDescriptorProto(
    name="keyed.proto",
    package="t",
    message_type=[
        message("Keyed", field(1, "n", "int32", default_value="7"), field(2, "color", "enum .t.Color")),
    ],
    enum_type=[
        EnumDescriptorProto(
            name="Color",
            value=[
                EnumValueDescriptorProto(name=name, number=number)
                for name, number in (("NONE", 0), ("RED", 1), ("CRIMSON", 1))
            ],
        )
    ],
)
KEYED.enum_type[0].options.allow_alias = True
KEYED_SET = with_imports(KEYED)
ELSEWHERE = "Readers would look for the row in another partition"
ONES = [name for name in COLUMNS if name.startswith(("f_", "o", "present", "ts", "dur"))]


def test_what_proto2_requires_and_gives_by_default(spark: SparkSession) -> None:
    """1. An entry of a map without a value is malformed where the value has required fields: there is no such value.
    2. Of a oneof the fields without a value are null, whatever their default. 3. What begins with the frame of a
    registry is no message."""
    whole = Strict(b="x")
    whole.parts[4].n = 5
    wanted = {
        whole.SerializeToString(): {"parts": {4: {"n": 5}}, "a": None, "b": "x"},
        Strict(a=1).SerializeToString(): {"parts": {}, "a": 1, "b": None},
        b"": {"parts": {}, "a": None, "b": None},
        b"\x0a\x02\x08\x04": "required fields are missing: parts[0].value.n",
        b"\0\0\0\0\x07\0" + whole.SerializeToString(): "the value is no message of t.Strict: ",
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


@pytest.mark.parametrize(
    ("column", "name", "told"),
    [
        (
            "5",
            "f_int64",
            f"the column f_int64 is int, and its field in {NAME} is read as bigint. {ELSEWHERE}: cast the",
        ),
        (
            "7",
            "w",
            f"{NAME}, which is the message google.protobuf.Int32Value. {ELSEWHERE}: declare the field as `optio",
        ),
        ("named_struct('n', 1)", "i", f"which is the message {NAME}.Inner. {ELSEWHERE}: name a column of one value"),
        ("array(1)", "r_f_int32", f"the field r_f_int32 of {NAME}, which is a list. {ELSEWHERE}: name a column of one"),
    ],
)
def test_a_key_is_one_value_of_the_type_with_which_it_is_read(
    spark: SparkSession, column: str, name: str, told: str
) -> None:
    """Otherwise its row is not in the partition in which readers look for it by Spark's hash. Without `key_groups` the
    hash does not count."""
    to = output().model_copy(update={"key_columns": (name,), "key_groups": 4})
    frame = spark.range(1).selectExpr(f"{column} AS {name}")
    with pytest.raises(BrokenTask, match=r"^output\.key_columns: ") as refused:
        records(frame, to)
    assert (refused.value.extra["rule"], told in refused.value.detail) == ("keys_as_read", True)
    assert records(frame, to.model_copy(update={"key_groups": None})).columns == ["value", "key"]


@pytest.mark.long
def test_a_row_is_in_the_partition_of_the_key_that_is_read_back(spark: SparkSession) -> None:
    """For a null that readers have as zero, or as a default of proto2, and for a second name of an enum's number."""
    assert misplaced(spark, output(), [f"CAST(NULL AS {COLUMNS[name]}) AS {name}" for name in ONES]) == []
    keyed = output(text(KEYED_SET), "t.Keyed")
    names = [f"CAST({name} AS STRING) AS color" for name in ("NULL", "'RED'", "'CRIMSON'")]
    assert misplaced(spark, keyed, ["CAST(NULL AS INT) AS n", "3 AS n", *names]) == []


def test_a_text_key_of_a_record_is_the_one_that_is_read_back(spark: SparkSession) -> None:
    """Kafka's own hash, of readers with `key_function: kafka`, is of the record's key."""
    to = output().model_copy(update={"key_columns": ("f_string",)})
    assert [row.key for row in records(spark.sql("SELECT CAST(NULL AS STRING) AS f_string"), to).collect()] == [""]


def misplaced(spark: SparkSession, to: KafkaOutput, columns: list[str]) -> list[tuple[str, int, int]]:
    """The key columns whose row is in another partition than that by the hash of what a reader has for its key."""
    found = []
    for written_as in columns:
        frame, key = spark.range(1).selectExpr(written_as), written_as.rpartition(" ")[2]
        keyed = to.model_copy(update={"key_columns": (key,), "key_groups": 1_000})
        (record,) = records(frame, keyed, value_of(frame, keyed, "", registers=False)).collect()
        of = source(str(to.value_schema), str(to.protobuf.message), emit_default_values=True)
        decoder = decoder_of(spark, of, "")
        assert decoder is not None
        rows = spark.createDataFrame([(record.value,)], "value binary").select(decoder.decoded().alias("row"))
        (wanted,) = rows.select(F.expr(f"pmod(hash(row.{key}), 1000)")).first() or ()
        if record.partition != wanted:
            found.append((written_as, record.partition, wanted))
    return found
