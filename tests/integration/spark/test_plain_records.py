"""Penstock's own reader of plain records beside Spark's: the same rows, and the same records are malformed."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from penstock.config.model import Input
from penstock.spark.inputs.malformed import DECODED, decoded, kind_of
from penstock.spark.inputs.plain import PLAIN

FIELDS = {
    "b": "BIGINT", "i": "INT", "h": "SMALLINT", "t": "TINYINT", "d": "DOUBLE", "f": "FLOAT", "p": "DECIMAL(7, 2)",
    "s": "STRING", "o": "BOOLEAN", "ts": "TIMESTAMP", "nn": "TIMESTAMP_NTZ", "da": "DATE",
}  # fmt: skip
NESTED = (
    "st STRUCT<t: TINYINT, l: ARRAY<STRUCT<d: DATE, s: STRING>>>, at ARRAY<TIMESTAMP>, ab ARRAY<BIGINT>, "
    "mt MAP<STRING, TINYINT>"
)
FLAT_SCHEMA = ", ".join(f"{name} {kind}" for name, kind in FIELDS.items())
SCHEMAS = {"json": f"{FLAT_SCHEMA}, {NESTED}", "csv": FLAT_SCHEMA}
ONLY_SPARK_READS = "s STRING COLLATE UTF8_LCASE"
NUMBERS = [
    "0", "-0", "1", "-1", "7", "127", "128", "-128", "200", "255", "32767", "32768", "2147483647", "2147483648", "007",
    "9223372036854775807", "9223372036854775808", "1715486400", "1715486400000", "253402300800", "-62135596801", "+5",
    "1.5", "1.005", "12345.67", "123456.7", "1e2", "1E-3", "1e400", "-1e400", "3.5e38", "1e-400", ".5", "5.", "1_0",
    "0x1F", "1d", "2f", "1,5", "1e", "--1", "NaN", "Infinity", "-INF", "INF", "\u0661", "99999999999999999999",
    "1e99999999999", "1e2147483648", "1.5e-2147483647", "0e99999999999", "0" * 1500 + "1",
]  # fmt: skip
TIMES = [
    "2024-01-01", "2024-1-1", "2024-01-01T00:00:00", "2024-01-01 12:34:56.789", "2024-01-01T00:00:00Z", "9999-12-31",
    "2024-01-01T00:00:00.123456789+02:00", "12024-01-01", "+12024-01-01", "-0001-01-01", "0001-01-01T00:00:00+01:00",
    "9999-12-31T23:59:59-05:00", "2024-02-30", "2024-01-01 24:00:00", "2024", "2024-06", "2024-01-01 Europe/Berlin",
    "2024-01-01T00:00:00 Europe/Berlin", "2024-03-31T02:30:00", "T12:00", "12:00", "epoch", "now", "1970-01-01T00:00",
    "2024-01-01T00:00:00 America/New_York", "20240101", " 2024-01-01", "2024-01-01 ",
]  # fmt: skip
WORDS = [
    "x", "", " ", "  x ", "true", "false", "TRUE", "null", "NULL", "é", "日本", "\U0001f600", "\u2028", "a\tb", "\x01",
    "\ufeff", "it's", "\x7f", "#", "-", "a;b", "\xa0",
]  # fmt: skip
RAW = [b"\xe9", b"\xc0\xaf", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xff\xfe", b"\x00", b"\xef\xbb\xbf"]


def json_texts(chance: random.Random) -> Iterator[bytes]:
    """Objects of values that mostly fit, some broken in one place."""
    escapes = ['"\\u00e9"', '"\\ud800"', '"\\ud83d\\ude00"', '"\\n\\/"', '"\\q"', '"\\u00"', "'x'", '"a\nb"', '"\t"']
    others = ["null", "true", "false", "{}", "[]", '{"t": 1}', "[1, null]", "[[1]]", "", "nul", "/**/1", "{'t': 1}"]

    def scalar() -> str:
        kind = chance.randrange(10)
        if kind < 4:
            return chance.choice(NUMBERS)
        if kind < 8:
            return f'"{chance.choice(NUMBERS + TIMES + WORDS)}"'
        return chance.choice(escapes + others)

    def fitting(name: str) -> str:
        if name == "st":
            return f'{{"t": {fitting("t")}, "l": [{{"d": {fitting("da")}, "s": {fitting("s")}}}, null]}}'
        if name == "mt":
            return f'{{"k": {fitting("t")}, "{chance.choice(WORDS)}": null, "k{chance.choice("12")}": {scalar()}}}'
        if name in ("at", "ab"):
            return f"[{fitting('ts' if name == 'at' else 'b')}, null, {scalar()}]"
        if name in ("s", "ts", "nn", "da"):
            return f'"{chance.choice(WORDS if name == "s" else TIMES[:8])}"'
        return chance.choice(["true", "null"]) if name == "o" else chance.choice([*NUMBERS[:4], "1.5"])

    names = [*FIELDS, "st", "at", "ab", "mt", "B", "unknown", "é"]
    while True:
        chosen = [chance.choice(names) for _ in range(chance.randrange(6))]
        pairs = [
            (name, scalar() if chance.random() < 0.4 or name not in names[:16] else fitting(name)) for name in chosen
        ]
        space = chance.choice(["", "", " ", "\n", "\t"])
        text = "{" + ",".join(f'{space}"{name}"{space}:{space}{value}' for name, value in pairs) + space + "}"
        yield broken(text.encode(), chance)


def csv_lines(chance: random.Random) -> Iterator[bytes]:
    """Lines of values that mostly fit, some broken in one place."""
    fitting = {"s": WORDS, "o": ["true", "false", ""], "ts": TIMES[:8], "nn": TIMES[:8], "da": TIMES[:8]}
    quoted = ['"a,b"', '"', '""', 'a"b', "\\", '"a\\"b"', "\\N", "a\nb"]
    while True:
        values = [chance.choice(fitting.get(name, [*NUMBERS[:5], ""])) for name in FIELDS]
        for _ in range(chance.choice([0, 0, 1, 1, 1, 3])):
            values[chance.randrange(len(values))] = chance.choice(NUMBERS + TIMES + WORDS)
        if chance.random() < 0.1:
            values[chance.randrange(len(values))] = chance.choice(quoted)
        values = values[: chance.choice([12, 12, 12, 12, 12, 11, 1])] + ["x"] * (chance.random() < 0.05)
        yield broken(",".join(values).encode(), chance)


def other_lines(chance: random.Random) -> Iterator[bytes]:
    """The same in another form."""
    yield from (line.replace(b",", b";").replace(b'"', b"'") for line in csv_lines(chance))


def tab_lines(chance: random.Random) -> Iterator[bytes]:
    """The same with tabs between the values."""
    yield from (line.replace(b"\t", b"_").replace(b",", b"\t") for line in csv_lines(chance))


def broken(text: bytes, chance: random.Random) -> bytes:
    """One in eight with bytes cut away, put in, or behind it."""
    kind, place = chance.randrange(32), chance.randrange(len(text) + 1)
    if kind == 0:
        return text[:place]
    if kind == 1:
        return text[:place] + chance.choice([*RAW, b'"', b"\\", b"}", b",", b" "]) + text[place:]
    if kind == 2:
        return text + chance.choice([b"{}", b" 1", b"}", b"\n", b" ", b",", b"\x00", b"\r\n", b"x"])
    if kind == 3:
        return chance.choice([text.decode().encode("utf-16-le"), text.decode().encode("utf-32-be"), b"", b" ", b"[1]"])
    return text


@pytest.mark.parametrize(
    ("zone", "rows"), [("UTC", 500), pytest.param("Europe/Berlin", 20_000, marks=pytest.mark.long)]
)
@pytest.mark.parametrize(
    ("name", "csv", "texts"),
    [
        ("json", {}, json_texts),
        ("csv", {}, csv_lines),
        pytest.param(
            "csv",
            {"delimiter": ";", "quote": "'", "escape": "'", "null_value": "NULL"},
            other_lines,
            marks=pytest.mark.long,
        ),
        pytest.param("csv", {"delimiter": "\t"}, tab_lines, marks=pytest.mark.long),
    ],
)
def test_plain_records_are_read_as_spark_reads_them(
    spark: SparkSession,
    name: str,
    csv: Mapping[str, str],
    texts: Callable[[random.Random], Iterator[bytes]],
    zone: str,
    rows: int,
) -> None:
    records = list(dict.fromkeys(text for _, text in zip(range(rows), texts(random.Random(1)), strict=False)))
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", zone)
    ours = judged(session, name, SCHEMAS[name], records, csv)
    theirs = judged(session, name, SCHEMAS[name].replace("s STRING", ONLY_SPARK_READS), records, csv)
    differing = {text: (ours[text], theirs[text]) for text in records if ours[text][:-1] != theirs[text][:-1]}
    assert differing == {}
    plain = sum(is_plain for *_, is_plain in ours.values())
    assert len(records) / 10 < plain < len(records)
    assert not any(is_plain for *_, is_plain in theirs.values())


def judged(
    session: SparkSession, name: str, schema: str, records: Sequence[bytes], csv: Mapping[str, str] = {}
) -> dict[bytes, tuple[str, int, bool]]:
    """By record: its row, its kind, and whether it was plain."""
    source = Input.model_validate({"topic": "t", "key_groups": 1, "format": name, "value_schema": schema, "csv": csv})
    frame = session.createDataFrame([(bytearray(value),) for value in records], "value binary").repartition(2)
    found = frame.withColumn(DECODED, decoded(session, source)).withColumn("kind", kind_of(session, source))
    shown = shown_row(found.withColumn("plain", F.col(f"{DECODED}.{PLAIN}")))
    return {bytes(row.value): (row.row, row.kind, bool(row.plain)) for row in shown.collect()}


def shown_row(found: DataFrame) -> DataFrame:
    """The row as text, with null told from an empty text."""
    fields = ", ".join(f"'{name}', {DECODED}.{name}" for name in found.select(f"{DECODED}.*").columns[:-2])
    return found.selectExpr("value", "kind", "plain", f"CAST(named_struct({fields}) AS STRING) AS row")


def test_times_are_left_to_spark_under_the_parser_of_old_releases(spark: SparkSession) -> None:
    session = spark.newSession()
    session.conf.set("spark.sql.legacy.timeParserPolicy", "LEGACY")
    records = [b'{"da": "2024-01-01"}', b'{"b": 1}']
    assert not any(is_plain for *_, is_plain in judged(session, "json", "b BIGINT, da DATE", records).values())
    assert all(is_plain for *_, is_plain in judged(session, "json", "b BIGINT", records).values())
