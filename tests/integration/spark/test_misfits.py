"""Records that do not fit their schema: what Spark makes of each, and what is made of it here.

`SUPPORTED.md` has the same cases as a table, in the same order.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import penstock.spark
from penstock.config.model import Input
from penstock.spark.inputs.malformed import DECODED, decoded, decoder_of, kind_of, reason_of
from tests.support.kafka.avro import framed, number, record, text

KEYED = ("k", "string"), ("v", "long"), ("w", "long")
EVENT = record(*KEYED)
FLAGGED = record(("k", "string"), ("b", "boolean"))
TIMED = record(("at", {"type": "long", "logicalType": "timestamp-micros"}))
DATED = record(("days", {"type": "array", "items": {"type": "int", "logicalType": "date"}}))


class Misfit(NamedTuple):
    """A record. `spark`: the row that Spark makes of it, as text; None: no row, or nulls alone. `here`: what the reason
    has; None: the record is not malformed, and the row is that of Spark."""

    name: str
    form: str
    schema: str
    value: bytes
    spark: str | None
    here: str | None


AFTER_ITS_VALUES = b"\x04ab" + number(77) + number(5) + number(6)
MISFITS = (
    Misfit(
        "Avro with the frame of a schema registry, read without it",
        "avro",
        EVENT,
        framed(1, text("ab"), number(5), number(6)),
        '{"k": "", "v": 0, "w": 0}',
        "the schema takes 3 of the 10 bytes of the value: it is not its writer's; the value begins as with the frame "
        "of a schema registry, with a zero byte and the id 1: if its writer uses a registry, set schema_registry to "
        "true",
    ),
    Misfit(
        "Avro with a field more than the schema, in the middle",
        "avro",
        EVENT,
        AFTER_ITS_VALUES,
        '{"k": "ab", "v": 77, "w": 5}',
        "the schema takes 6 of the 7 bytes of the value: it is not its writer's",
    ),
    Misfit("Avro with a field less", "avro", EVENT, text("ab") + number(5), None, "the value ends before the datum"),
    Misfit(
        "Avro with a string that is not UTF-8",
        "avro",
        FLAGGED,
        b"\x02\xe9\x01",
        '{"k": "\ufffd", "b": true}',
        "a string is not UTF-8",
    ),
    Misfit(
        "Avro with a boolean that is neither 0 nor 1",
        "avro",
        FLAGGED,
        text("a") + b"\x07",
        '{"k": "a", "b": false}',
        "a boolean is the byte 7",
    ),
    Misfit(
        "Avro with a string that is longer than the record",
        "avro",
        EVENT,
        number(10_000) + b"a",
        None,
        "a string of 10000 bytes begins where 1 bytes are left",
    ),
    Misfit(
        "Avro with a time out of the years 1 to 9999",
        "avro",
        TIMED,
        number(1_700_000_000_000_000_000),
        '{"at": 1700000000000000000}',
        "the time at is out of the years 1 to 9999",
    ),
    Misfit(
        "Avro with a date out of them, also in an array",
        "avro",
        DATED,
        number(2) + number(19_000) + number(4_000_000) + number(0),
        '{"days": [19000, 4000000]}',
        "the time days is out of the years 1 to 9999",
    ),
    Misfit(
        "JSON with another object behind it", "json", "k STRING", b'{"k": "a"}{"k": "b"}', "('a',)", "10 more bytes"
    ),
    Misfit("JSON with a field twice", "json", "k STRING", b'{"k": "a", "k": "b"}', "('b',)", None),
    Misfit("JSON with a field in another case", "json", "k STRING", b'{"K": "a"}', None, None),
    Misfit("JSON with a number that is too large for INT", "json", "v INT", b'{"v": 5000000000}', None, "v int"),
    Misfit("JSON with a fraction for INT", "json", "v INT", b'{"v": 1.5}', None, "v int"),
    Misfit("JSON with a text for INT", "json", "v INT", b'{"v": "5"}', None, "v int"),
    Misfit("JSON with a number that is too large for DOUBLE", "json", "v DOUBLE", b'{"v": 1e400}', "(inf,)", ": v"),
    Misfit("JSON with 128 to 255 for TINYINT", "json", "v TINYINT", b'{"v": 200}', "(-56,)", ": v"),
    Misfit("JSON with a number for STRING", "json", "k STRING", b'{"k": 1.50}', "('1.5',)", None),
    Misfit("JSON that is not UTF-8", "json", "k STRING", b'{"k": "\xe9"}', "('\ufffd',)", "is not UTF-8"),
    Misfit("CSV with more values than columns", "csv", "k STRING, v INT", b"a,1,2", "('a', 1)", "not have 2 values"),
    Misfit("CSV with fewer", "csv", "k STRING, v INT", b"a", "('a', None)", "not have 2 values"),
    Misfit("CSV with a text for INT", "csv", "k STRING, v INT", b"a,x", "('a', None)", "v int"),
)
_TABLE = re.compile(r"^\| (?P<name>(?:Avro|JSON|CSV)\b.+?) \| (?P<spark>.+?) \| (?P<here>.+?) \|$", re.MULTILINE)


def by_spark(spark: SparkSession, misfit: Misfit) -> str | None:
    """What Spark's function gives; of Avro the datum of Avro's own reader, of which `from_avro` makes its row."""
    if misfit.form == "avro":
        return _by_avro(spark, misfit)
    frame = spark.createDataFrame([(misfit.value,)], "value binary")
    value = F.col("value").cast("string")
    read = F.from_json(value, misfit.schema) if misfit.form == "json" else F.from_csv(value, misfit.schema)
    return as_text(frame.select(read).collect()[0][0])


def _by_avro(spark: SparkSession, misfit: Misfit) -> str | None:
    avro: Any = spark._jvm.org.apache.avro  # type: ignore[union-attr]
    reader = avro.generic.GenericDatumReader(getattr(avro, "Schema$Parser")().parse(misfit.schema))
    try:
        return str(reader.read(None, avro.io.DecoderFactory.get().binaryDecoder(misfit.value, None)).toString())
    except Py4JJavaError:
        return None


def as_text(row: Any) -> str | None:
    """As `Misfit.spark`: None where nothing is in the row."""
    return None if row is None or all(each is None for each in row) else str(tuple(row))


# Of JSON and CSV `test_decoding` has the same in one plan.
@pytest.mark.parametrize(
    "misfit",
    [
        pytest.param(misfit, id=misfit.name, marks=[] if misfit.form == "avro" else pytest.mark.long)
        for misfit in MISFITS
    ],
)
def test_what_spark_makes_of_it_and_what_is_made_of_it_here(spark: SparkSession, misfit: Misfit) -> None:
    source = Input.model_validate({"topic": "t", "key_groups": 1, "format": misfit.form, "value_schema": misfit.schema})
    decoder = decoder_of(spark, source, "")
    frame = spark.createDataFrame([(bytearray(misfit.value),)], "value binary")
    found = frame.withColumn(DECODED, decoded(spark, source))
    found = found.withColumn("kind", kind_of(spark, source)).withColumn("why", reason_of(spark, source, decoder))
    row = found.select("kind", "why", DECODED).collect()[0]
    assert by_spark(spark, misfit) == misfit.spark
    if misfit.here is None:
        assert (row.kind, as_text(row[DECODED][:-2])) == (0, misfit.spark)
    else:
        assert (row.kind, misfit.here in row.why) == (1, True), row.why


LISTS = record(
    ("nulls", {"type": "array", "items": "null"}),
    ("counts", {"type": "map", "values": "long"}),
    ("either", ["null", "string", "bytes"]),
    ("kind", {"type": "enum", "name": "kinds", "symbols": ["A", "B"]}),
    ("price", {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}),
)
_HUGE = (900_000_000, 2**31 - 20, 2**31 - 2, 2**40, 2**63 - 1, -(2**40), -(2**63))


@pytest.mark.parametrize(
    ("schema", "whole", "huge"),
    [
        (EVENT, text("a") + number(1) + number(2), [number(size) for size in _HUGE]),
        (
            LISTS,
            number(3) + number(0) * 4 + b"\x02\x05",
            [begin + number(size) for size in _HUGE for begin in (b"", b"\0", b"\0\0\x02", b"\0\0\0\0")],
        ),
    ],
)
def test_no_bytes_end_a_task_or_use_up_its_memory(
    spark: SparkSession, schema: str, whole: bytes, huge: list[bytes]
) -> None:
    """Lengths for which the record has no room, and bytes by chance: each is a row, or malformed with a reason."""
    dice = random.Random(1)
    chance = [bytes(dice.randrange(8) for _ in range(dice.randrange(20))) for _ in range(2_000)]
    source = Input.model_validate({"topic": "t", "key_groups": 1, "format": "avro", "value_schema": schema})
    decoder = decoder_of(spark, source, "")
    assert decoder is not None
    rows = [(at < len(huge), bytearray(value)) for at, value in enumerate((*huge, whole, *chance))]
    frame = spark.createDataFrame(rows, "huge boolean, value binary").withColumn(DECODED, decoder.decoded())
    told = frame.withColumn("why", decoder.reasons()).select("huge", F.col(DECODED).isNull().alias("unread"), "why")
    found = Counter((row.huge, row.unread, row.why is not None) for row in told.collect())
    assert found[True, True, True] == len(huge)
    assert found.keys() <= {(True, True, True), (False, True, True), (False, False, False)}
    assert found[False, False, False] > 0


def test_the_page_has_these_records() -> None:
    page = Path(penstock.spark.__file__).with_name("SUPPORTED.md").read_text(encoding="utf-8")
    told = [(found["name"], found["here"].startswith("malformed")) for found in _TABLE.finditer(page)]
    assert told == [(misfit.name, misfit.here is not None) for misfit in MISFITS]
