"""Protobuf: messages as rows, rows as messages, and what is malformed. The bytes are written and read by Protobuf's own
package for Python, and each column is what Spark's `from_protobuf` makes of its field.
"""

from __future__ import annotations

import base64
import random
from collections.abc import Iterable, Mapping
from datetime import timedelta
from decimal import Decimal
from math import isnan
from typing import Any

import pytest
from google.protobuf.descriptor_pb2 import (
    EnumDescriptorProto,
    EnumValueDescriptorProto,
    FileDescriptorProto,
    FileDescriptorSet,
)
from google.protobuf.message import DecodeError
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from penstock.config.model import Input, KafkaOutput
from penstock.control.errors import BrokenTask
from penstock.spark.failures import failure_of
from penstock.spark.inputs.malformed import DECODED, decoder_of, kind_of, reason_of
from penstock.spark.sinks.kafka import records, value_of
from tests.support.kafka.protobuf import TIMESTAMP, classes, entry, field, message, text, with_imports
from tests.support.kafka.protobuf_kinds import ALL, COLUMNS, NAME, All, expected, random_message


def source(schema: str = ALL, name: str = NAME, **options: Any) -> Input:
    protobuf = {"message": name, **options}
    fields = {"topic": "t", "key_groups": 1, "format": "protobuf", "value_schema": schema, "protobuf": protobuf}
    return Input.model_validate(fields)


def read(spark: SparkSession, values: Iterable[bytes], of: Input) -> dict[bytes, Any]:
    """By value: the row, or why the record is malformed."""
    decoder = decoder_of(spark, of, "")
    assert decoder is not None
    frame = spark.createDataFrame([(bytearray(value),) for value in values], "value binary")
    found = frame.withColumn(DECODED, decoder.decoded()).withColumn("kind", kind_of(spark, of))
    told = found.withColumn("why", reason_of(spark, of, decoder)).withColumn(DECODED, as_micros(found))
    rows = [row.asDict(True) for row in told.collect()]
    return {bytes(row["value"]): row["why"] if row["kind"] else plain(row[DECODED]) for row in rows}


def as_micros(frame: DataFrame) -> Column:
    """The rows with times as whole numbers: Python's have no year 1 in some zones."""
    column, names = F.col(DECODED), frame.select(f"{DECODED}.*").columns
    if "ts" in names:
        column = column.withField("ts", F.unix_micros(f"{DECODED}.ts"))
        column = column.withField("rts", F.transform(f"{DECODED}.rts", F.unix_micros))
    return F.when(F.col(DECODED).isNotNull(), column)


def plain(value: Any) -> Any:
    """A value of a row as Protobuf's package for Python tells it, with durations in microseconds."""
    match value:
        case dict():
            return {key: plain(each) for key, each in value.items()}
        case list():
            return [plain(each) for each in value]
        case timedelta():
            return value // timedelta(microseconds=1)
        case Decimal():
            return int(value)
        case bytearray():
            return bytes(value)
        case float() if isnan(value):
            return "nan"
    return value


def different(found: Mapping[bytes, Any], wanted: Mapping[bytes, Any]) -> dict[bytes, Any]:
    """The records that are read otherwise, with what they were read as. A reason need only contain the one wanted."""
    return {
        value: found[value]
        for value, want in wanted.items()
        if (want not in str(found[value]) if isinstance(want, str) else found[value] != want)
    }


def unknown_and(value: bytes) -> bytes:
    """A value with a field that the schema does not have, before and behind what it has."""
    return NEWER(later="x", group=7).SerializeToString() + value + NEWER(later="y").SerializeToString()


NEWER_SET = with_imports(
    FileDescriptorProto(
        name="newer.proto",
        package="t.v1",
        syntax="proto3",
        message_type=[message("Newer", field(900, "later", "string"), field(901, "group", "fixed64"))],
    )
)
(NEWER,) = classes(NEWER_SET, "t.v1.Newer")


def varint(number: int, value: int) -> bytes:
    """A field that is written as a whole number, by Protobuf's own writer."""
    made = FileDescriptorProto(
        name=f"n{number}.proto", syntax="proto3", message_type=[message("N", field(number, "n", "uint64"))]
    )
    (one,) = classes(with_imports(made), "N")
    return bytes(one(n=value).SerializeToString())


def test_messages_become_rows_and_what_does_not_fit_is_malformed(spark: SparkSession) -> None:
    """1. A column for each field, as Spark has it. 2. Random messages, also two in one, and with fields that the schema
    does not have. 3. What a field cannot hold is malformed with its reason, where parsers cut it off or keep it apart,
    and so are bytes that are no message."""
    decoder = decoder_of(spark, source(), "")
    assert decoder is not None
    frame = spark.createDataFrame([], "value binary").select(decoder.decoded().alias(DECODED)).select(f"{DECODED}.*")
    assert {each.name: each.dataType.simpleString() for each in frame.schema} == COLUMNS
    wanted: dict[bytes, Any] = {}
    for seed in range(60):
        made = random_message(seed)
        wanted[made.SerializeToString()] = wanted[unknown_and(made.SerializeToString())] = expected(made)
        more = random_message(seed + 1)
        more.ClearField("dur")  # Parts of two durations may be none.
        both = made.SerializeToString() + more.SerializeToString()
        wanted[both] = expected(All.FromString(both))
    misfits = {
        varint(1, 2**31): "the field f_int32 has 2147483648, which is not 32 bits with a sign",
        varint(4, 2**32): "the field f_uint32 has 4294967296, which is not 32 bits without a sign",
        varint(4, 2**64 - 1): "the field f_uint32 has 18446744073709551615",
        varint(16, 7): "the field f_enum has 7, which is not a number of the enum t.v1.Color",
        varint(14, 1): "the field f_string (14) is written as another type than the schema has",
        b"\x08": "the value is no message of t.v1.All",
        b"garbage": "the value is no message",
        All(f_bytes=b"\xff").SerializeToString().replace(b"\x7a\x01", b"\x72\x01"): "the field f_string is not UTF-8",
    }
    too_late, backwards = All(), All()
    too_late.ts.seconds, backwards.dur.seconds, backwards.dur.nanos = 253_402_300_800, 1, -1
    misfits[too_late.SerializeToString()] = "the field ts has 253402300800 s and 0 ns, which is not a time of the years"
    misfits[backwards.SerializeToString()] = "the field dur has 1 s and -1 ns, which is not a duration"
    found = read(spark, [*wanted, *misfits], source())
    assert different(found, wanted | misfits) == {}


def seeded_bytes(seed: int) -> bytes:
    """A message that is cut, changed in some bytes, joined with another, or made of chance alone."""
    chance = random.Random(seed)
    value = bytearray(random_message(seed).SerializeToString())
    match seed % 4:
        case 0:
            del value[chance.randrange(len(value) + 1) :]
        case 1:
            for _ in range(chance.randrange(1, 4)):
                value[chance.randrange(len(value))] = chance.randrange(256)
        case 2:
            value = value[: chance.randrange(len(value))] + random_message(seed + 1).SerializeToString()[5:]
        case 3:
            value = bytearray(chance.randbytes(chance.randrange(40)))
    return bytes(value)


@pytest.mark.long
@pytest.mark.parametrize("zeros", [False, True])
def test_no_bytes_become_another_row_than_they_are(spark: SparkSession, zeros: bool) -> None:
    """What becomes a row is what Protobuf's own reader finds. What that refuses is malformed, with a reason.

    But for bytes that no writer makes: of a field's number, and of the last byte of ten, Protobuf's reader for Java
    leaves out bits that should be zero; that for Python leaves out entries of maps that have unknown fields.
    """
    values = {seeded_bytes(seed) for seed in range(6000)}
    found = read(spark, values, source(emit_default_values=zeros))
    rows = {value: row for value, row in found.items() if isinstance(row, dict)}
    assert min(len(rows), len(found) - len(rows)) > 500
    assert [value for value, why in found.items() if not why] == []
    others = [value for value, row in rows.items() if own_row(value, zeros) != row]
    assert [value for value in others if (own := own_reader(value)) and own.SerializeToString() == value] == []
    assert len(others) < 0.05 * len(rows)


def own_reader(value: bytes) -> Any:
    """The message; None when Protobuf's own reader refuses it."""
    try:
        return All.FromString(value)
    except DecodeError:
        return None


def own_row(value: bytes, zeros: bool) -> Any:
    try:
        found = own_reader(value)
        return None if found is None else plain(expected(found, zeros))
    except ValueError:
        return None  # A time out of the years that there are.


OLD_FILE = FileDescriptorProto(
    name="old.proto",
    package="t",
    message_type=[
        message(
            "Old",
            field(1, "id", "uint32", "required"),
            field(2, "status", "enum .t.Old.Status", default_value="OPEN"),
            field(3, "note", "string", default_value="é"),
            field(4, "none", "enum .t.Old.Status"),
            field(5, "list", "enum .t.Old.Status", "repeated"),
            field(6, "counts", ".t.Old.CountsEntry", "repeated"),
            field(7, "part", "group .t.Old.Part"),
            nested_type=[entry("CountsEntry", "int32", "int32"), message("Part", field(1, "n", "int32", "required"))],
            enum_type=[
                EnumDescriptorProto(
                    name="Status",
                    value=[
                        EnumValueDescriptorProto(name="OPEN", number=1),
                        EnumValueDescriptorProto(name="CLOSED", number=2),
                    ],
                )
            ],
        )
    ],
)
OLD_SET = with_imports(OLD_FILE)
(Old,) = classes(OLD_SET, "t.Old")


def test_proto2_has_defaults_and_requires_fields(spark: SparkSession) -> None:
    """1. A default of the schema, null without one. 2. An unknown enum is malformed, also where a parser keeps it
    apart. 3. Of map entries with one key the last counts, and what an entry lacks is zero."""
    bare = {"id": 2**32 - 1, "status": "OPEN", "note": "é", "none": None, "list": [], "counts": {}, "part": None}
    whole = Old(id=2**32 - 1)
    full = Old(id=1, status=2, note="", none=1, list=[2, 1])
    full.part.n = 7
    one, other = Old(id=1, counts={4: 5}), Old(id=1, counts={4: 6})
    key_only = b"\x08\x01" + b"\x32\x02\x08\x04"
    wanted = {
        whole.SerializeToString(): bare,
        full.SerializeToString(): bare
        | {"id": 1, "status": "CLOSED", "note": "", "none": "OPEN", "list": ["CLOSED", "OPEN"], "part": {"n": 7}},
        one.SerializeToString() + other.SerializeToString(): bare | {"id": 1, "counts": {4: 6}},
        key_only: bare | {"id": 1, "counts": {4: 0}},
        b"": "required fields are missing: id",
        b"\x08\x01\x3b\x3c": "required fields are missing: part.n",
        whole.SerializeToString()
        + varint(2, 9): "the field status has 9, which is not a number of the enum t.Old.Status",
        whole.SerializeToString() + varint(5, 9): "the field list has 9",
        whole.SerializeToString() + b"\x1a\x01\xff": "the field note is not UTF-8",
        whole.SerializeToString() + b"\x32\x05\x0d\0\0\0\0": "the field counts.key (1) is written as another type",
    }
    of = source(text(OLD_SET), "t.Old")
    assert different(read(spark, wanted, of), wanted) == {}
    decoder = decoder_of(spark, of, "")
    assert decoder is not None
    assert [each.nullable() for each in decoder.java.dataType().fields()][:2] == [False, True]


# The message M of a file of `edition = "2023"`, as protoc writes it: a text that no parser checks, a closed enum with a
# default, a field without presence, a list that is not packed, a message between two tags with a required field.
EDITION = (
    "CsYBCghlZC5wcm90bxIBZSKJAQoBTRIMCgFzGAEgASgJUgFzEhMKAWkYAiABKAVCBaoBAggCUgFpEhsKAW4YAyABKAsyBi5lLk0uTkIFqgECKAJSAW4S"
    "FQoBYxgEIAEoDjIELmUuQzoBQlIBYxITCgFyGAUgAygFQgWqAQIYAlIBchoYCgFOEhMKAXgYASABKAVCBaoBAggDUgF4KhcKAUMSBQoBQRABEgUKAUIQ"
    "AhoEOgIQAkIFkgMCIANiCGVkaXRpb25zcOgH"
)


def test_an_edition_is_read_by_its_features(spark: SparkSession) -> None:
    (made,) = classes(FileDescriptorSet.FromString(base64.b64decode(EDITION)), "e.M")
    full = made(s="é", i=5, r=[1, 2], c=1)
    full.n.x = 3
    wanted = {
        full.SerializeToString(): {"s": "é", "i": 5, "n": {"x": 3}, "c": "A", "r": [1, 2]},
        b"": {"s": None, "i": 0, "n": None, "c": "B", "r": []},
        b"\x0a\x01\xff": "the field s is not UTF-8",
        varint(4, 9): "the field c has 9, which is not a number of the enum e.C",
        b"\x1b\x1c": "required fields are missing: n.x",
    }
    assert different(read(spark, wanted, source(EDITION, "e.M", emit_default_values=True)), wanted) == {}


def set_of(*messages: Any, imports: Iterable[str] = ()) -> str:
    made = FileDescriptorProto(name="x.proto", package="x", syntax="proto3", message_type=messages, dependency=imports)
    return text(with_imports(made))


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        (
            set_of(message("M", field(1, "m", ".x.M", "repeated"))),
            r"value_schema: the message x.M contains itself \(x.M.m\)",
        ),
        (
            set_of(message("M", field(1, "n", ".x.N")), message("N", field(1, "m", ".x.M"))),
            r"the message x.M contains itself \(x.N.m\)",
        ),
        (set_of(message("M")), "the message x.M has no fields that are columns"),
        (set_of(message("M", field(1, "a", ".x.A"))), "the descriptor set is not valid: x.M.a: .*x.A"),
        (
            set_of(message("M", field(1, "a", TIMESTAMP)), imports=["other.proto"]),
            "lacks other.proto, which x.proto imports: write it by protoc --include_imports",
        ),
        (
            set_of(
                *[message(f"M{n or ''}", *[field(f, f"f{f}", f".x.M{n + 1}") for f in (1, 2)]) for n in range(30)],
                message("M30", field(1, "n", "int32")),
            ),
            "the message has more than 10000 fields",
        ),
    ],
)
def test_a_message_that_gives_no_columns_is_refused(spark: SparkSession, schema: str, why: str) -> None:
    with pytest.raises(BrokenTask, match=why):
        decoder_of(spark, source(schema, "x.M"), "")


def output(schema: str = ALL, name: str = NAME) -> KafkaOutput:
    fields = {"topic": "the.words", "value_format": "protobuf", "value_schema": schema, "protobuf": {"message": name}}
    return KafkaOutput.model_validate(fields)


def written(frame: DataFrame, to: KafkaOutput) -> list[bytes]:
    value = value_of(frame, to, "", registers=True)
    return [bytes(row.value) for row in records(frame, to, value).collect()]


def test_rows_become_messages(spark: SparkSession) -> None:
    """1. Rows as they were read become the same messages again: those without empty messages, which are no columns.
    2. Columns of narrower types fit; a wrapper takes its plain value. 3. A null is left out."""
    made = [random_message(seed) for seed in range(60)]
    for each in made:
        each.ClearField("e")
    decoder = decoder_of(spark, source(), "")
    assert decoder is not None
    frame = spark.createDataFrame([(bytearray(each.SerializeToString()),) for each in made], "value binary")
    again = written(frame.select(decoder.decoded().alias(DECODED)).select(f"{DECODED}.*"), output())
    assert [All.FromString(value) for value in again] == made
    columns = (
        "1Y AS F_INT32, 2S AS f_int64, 3 AS f_uint64, 4L AS f_uint32, 5.5F AS f_double, 6 AS w, NULL::BOOLEAN AS f_bool"
    )
    (value,) = written(spark.range(1).selectExpr(*columns.split(", ")), output())
    narrow = All(f_int32=1, f_int64=2, f_uint64=3, f_uint32=4, f_double=5.5)
    narrow.w.value = 6
    assert All.FromString(value) == narrow


@pytest.mark.parametrize(
    ("columns", "name", "why"),
    [
        (
            ["1 AS other", "1L AS f_int32"],
            NAME,
            "no field for the column other; the column f_int32 is bigint, and the field",
        ),
        (["1 AS r_f_int32"], NAME, "the column r_f_int32 is int, and the field t.v1.All.r_f_int32 is repeated int32"),
        (["array(1) AS f_int32"], NAME, "the column f_int32 is array<int>"),
        (["named_struct('n', 1, 'z', 2) AS i"], NAME, "the message t.v1.All.Inner has no field for the column i.z"),
        (["map(1, 2) AS ms"], NAME, "the column ms.key is int"),
        (
            ["current_date() AS ts"],
            NAME,
            "the column ts is date, and the field t.v1.All.ts is google.protobuf.Timestamp",
        ),
        (["1 AS f_bool", "true AS F_BOOL"], NAME, "two columns are for the field t.v1.All.f_bool"),
        (["'x' AS note"], "t.Old", "no column is for the required field t.Old.id"),
    ],
)
def test_columns_that_do_not_fit_the_message_are_refused(
    spark: SparkSession, columns: list[str], name: str, why: str
) -> None:
    to = output(ALL if name == NAME else text(OLD_SET), name)
    with pytest.raises(BrokenTask, match=r"^output.value_format: the columns of the query do not fit the mess") as told:
        value_of(spark.range(1).selectExpr(*columns), to, "", registers=False)
    assert (told.value.extra["rule"], why in told.value.detail) == ("columns_of_protobuf", True)


@pytest.mark.parametrize(
    ("column", "name", "why"),
    [
        ("-1 AS f_uint32", NAME, "the column f_uint32 has -1, which is not 32 bits without a sign"),
        ("-1L AS f_uint64", NAME, "the column f_uint64 has -1"),
        ("CAST('18446744073709551616' AS DECIMAL(20, 0)) AS f_uint64", NAME, "f_uint64 has 18446744073709551616"),
        ("'BLUE' AS f_enum", NAME, "the column f_enum has BLUE, which is not a name of the enum t.v1.Color"),
        ("array(1, NULL) AS r_f_int32", NAME, "the column r_f_int32 has a null among its values"),
        ("CAST(NULL AS INT) AS id", "t.Old", "the column id is null, and the field t.Old.id is required"),
        ("timestamp_seconds(253402300800) AS ts", NAME, "which is not a time of the years 1 to 9999"),
        ("5 AS o1; 'x' AS o2", NAME, "the columns o1 and o2 both have a value"),
    ],
)
def test_a_value_that_a_field_cannot_hold_fails_the_task(spark: SparkSession, column: str, name: str, why: str) -> None:
    """It is never cut off."""
    to = output(ALL if name == NAME else text(OLD_SET), name)
    with pytest.raises(Exception, match=r"output.value_format") as failed:
        written(spark.range(1).selectExpr(*column.split("; ")), to)
    error = failure_of(failed.value).error
    assert (error.startswith("output.value_format: the column"), why in error) == (True, True)
