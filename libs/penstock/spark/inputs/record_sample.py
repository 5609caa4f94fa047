"""What a sample of a topic's newest records says against the columns that an input declares.

A field that no record has is null in every row, and nothing fails: a misspelt event time opens no window, a misspelt
key is of one group. So a plan and a write are refused for those two, and for a sample that is mostly malformed. Other
columns are only told, since records that are yet to come may have them.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches
from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from penstock.config.model import Input
from penstock.config.problems import Problem
from penstock.kafka.access import Brokers
from penstock.spark.inputs.key_sample import SampledKey
from penstock.spark.inputs.malformed import DECODED, columns, decoded, decoder_of, kind_of, reason_of, struct_of

FEWEST_RECORDS = 8
"""Of fewer records nothing is said."""
FITS, EVENT_TIME, KEYS = "records_fit_schema", "event_time_in_records", "keys_in_records"
_MALFORMED = 1
_MOST_TOLD = 10
_MOST_TYPES = 8


class Finding(NamedTuple):
    """What is said of an input. `rule`: None for a note, which refuses nothing."""

    field: str
    rule: str | None
    detail: str


class Sampled(NamedTuple):
    """The records of a sample that carry a row. `empty`: the columns that are null in all that are not malformed.
    `why`: the reason of the first that is malformed. `fields`: of JSON, the names of all fields at the top, the most
    frequent first."""

    records: int
    malformed: int
    empty: tuple[str, ...] = ()
    why: str = ""
    fields: tuple[str, ...] = ()


def has_record_rule(source: Input) -> bool:
    """Whether records of an input have columns that a sample could contradict."""
    return source.format != "raw"


def record_findings(
    name: str, source: Input, topic: str, brokers: Brokers, session: SparkSession, sampled: Sequence[SampledKey]
) -> Iterator[Finding]:
    """What a sample of a topic of the input, by its full name, says against `value_schema`.

    Raises Unavailable when the registry does not answer, BrokenTask for a schema that gives no columns.
    """
    values = [each.value for each in sampled if each.value is not None]
    if len(values) >= FEWEST_RECORDS:
        yield from judge(name, source, topic, _sampled(session, source, values, brokers))


def judge(name: str, source: Input, topic: str, found: Sampled) -> Iterator[Finding]:
    """What a sample of at least `FEWEST_RECORDS` says. Pure."""
    field = f"inputs.{name}"
    if found.malformed > source.malformed_limit * found.records:
        told = f"{found.malformed} of {found.records} sampled records of the topic {topic} are malformed"
        detail = f"{field}.value_schema: {told}, which is more than malformed_limit: {found.why}"
        yield Finding(f"{field}.value_schema", FITS, detail)
    whole = found.records - found.malformed
    if whole < FEWEST_RECORDS:
        return
    where = f"in all {whole} sampled records of the topic {topic}"
    unread = set(found.empty)
    if source.event_time_column is not None and (column := _among(source.event_time_column, unread)):
        detail = (
            f"{field}.event_time_column: {column} is null {where}, so no window would open{_instead(column, found)}"
        )
        yield Finding(f"{field}.event_time_column", EVENT_TIME, detail)
        unread.discard(column)
    for key in source.key_columns:
        if column := _among(key, unread):
            detail = f"{field}.key_columns: {column} is null {where}{_instead(column, found)}"
            yield Finding(f"{field}.key_columns", KEYS, detail)
            unread.discard(column)
    if unread:
        yield Finding(f"{field}.value_schema", None, f"{field}.value_schema: {_told(found, unread)} {where}")


def _told(found: Sampled, unread: set[str]) -> str:
    named = [each for each in found.empty if each in unread]
    shown = ", ".join(f"{column}{_instead(column, found)}" for column in named[:_MOST_TOLD])
    more = f" and {len(named) - _MOST_TOLD} more" if len(named) > _MOST_TOLD else ""
    return f"{shown}{more} {'is' if len(named) == 1 else 'are'} null"


def _among(column: str, names: Iterable[str]) -> str | None:
    """The name among them that Spark takes for the column."""
    wanted = column.strip("`").lower()
    return next((name for name in names if name.lower() == wanted), None)


def _instead(column: str, found: Sampled) -> str:
    """The field of JSON that may be meant: names are compared with upper and lower case."""
    if not found.fields or column in found.fields:
        return ""
    lower = {name.lower(): name for name in reversed(found.fields)}
    near = get_close_matches(column.lower(), lower, n=1)
    have = lower[near[0]] if near else ", ".join(found.fields[:_MOST_TOLD])
    return f" (no record has this field; they have {have})"


def _sampled(session: SparkSession, source: Input, values: Sequence[bytes], brokers: Brokers) -> Sampled:
    """Spark decodes the values as the query of the job does."""
    source = with_few_types(source)
    frame = _decoded(session, source, values, brokers)
    wide = columns(frame, source, F.col("value").alias("value"), F.col("kind").alias("kind"))
    names = wide.columns[2:]
    # By numbers, since a schema may have a column `value` or `kind`, too.
    value, kind, *own = (F.col(str(at)) for at in range(len(wide.columns)))
    numbered = wide.toDF(*map(str, range(len(wide.columns))))
    rows = numbered.select(value, kind, F.array(*[column.isNull() for column in own])).collect()
    malformed = [bytes(value) for value, kind, _ in rows if kind == _MALFORMED]
    whole = [nulls for _, kind, nulls in rows if kind != _MALFORMED]
    empty = tuple(name for at, name in enumerate(names) if whole and all(nulls[at] for nulls in whole))
    fields = tuple(fields_of(values)) if source.format == "json" else ()
    is_much = len(malformed) > source.malformed_limit * len(values)
    why = _reason(session, source, malformed[0], brokers) if is_much else ""
    return Sampled(len(values), len(malformed), empty, why, fields)


def _decoded(session: SparkSession, source: Input, values: Sequence[bytes], brokers: Brokers) -> DataFrame:
    frame = session.createDataFrame([(each,) for each in values], "value binary")
    value = decoded(session, source, brokers)
    return frame.withColumn(DECODED, value).withColumn("kind", kind_of(session, source))


def _reason(session: SparkSession, source: Input, value: bytes, brokers: Brokers) -> str:
    """Why a value is malformed. Of one alone: the words cost Spark much more than to see that it is."""
    told = reason_of(session, source, decoder_of(session, source, brokers))
    return str(_decoded(session, source, [value], brokers).select(told).collect()[0][0])


def with_few_types(source: Input) -> Input:
    """The same input, of JSON or CSV with all but eight columns as texts: the event time, the keys, and the first ones.
    Spark takes seconds to plan the checks of many numbers and times, and a write does not wait so long. Pure."""
    if source.format not in ("json", "csv"):
        return source
    schema = struct_of(str(source.value_schema))
    named = [str(source.event_time_column).strip("`").lower(), *(key.strip("`").lower() for key in source.key_columns)]
    first = [name for name in (field.name.lower() for field in schema.fields) if name not in named]
    typed = {*named, *first[: max(0, _MOST_TYPES - len(named))]}
    fields = [each if each.name.lower() in typed else StructField(each.name, StringType()) for each in schema.fields]
    return source.model_copy(update={"value_schema": StructType(fields).json()})


def fields_of(values: Iterable[bytes]) -> Iterator[str]:
    """The names of the fields at the top of JSON records, the most frequent first. What is no object has none. Pure."""
    counted: Counter[str] = Counter()
    for value in values:
        try:
            record = json.loads(value)
        except (ValueError, RecursionError):
            continue
        if isinstance(record, dict):
            counted.update(record.keys())
    return (name for name, _ in counted.most_common())


def as_problem(found: Finding) -> Problem | str:
    """A problem, or the text of a note."""
    return found.detail if found.rule is None else Problem(found.field, found.rule, found.detail)
