"""Which records are malformed, and where they go instead of the query (SEMANTICS.md, "Malformed records").

A record is malformed when its value does not fit `value_schema`, wholly or in one field; also where Spark's parser of
JSON or CSV takes it all the same, and makes another value of it (`misread`). A record without a value is not: it
carries no row. With `malformed: null` the query gets such rows all the same, as Spark would give them.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from pyspark.errors import IllegalArgumentException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.classic.column import Column as JvmColumn
from pyspark.sql.types import StringType, StructField, StructType

from penstock.config.model import Input, JobConfig
from penstock.config.topic_patterns import regex_of, regex_of_names
from penstock.control.errors import BrokenTask
from penstock.kafka.access import Brokers
from penstock.spark.columns import java_of
from penstock.spark.csv_options import record_options
from penstock.spark.inputs.avro import avro_decoder
from penstock.spark.inputs.decoder import Decoder
from penstock.spark.inputs.event_time import as_written, event_time, event_time_name, is_unread, unread_words
from penstock.spark.inputs.huge_numbers import TOLD, has_huge_number, without_decimals
from penstock.spark.inputs.misread import (
    TEXT,
    Parser,
    Suspect,
    explanation,
    misread,
    name_of,
    suspects,
    text_of,
    texts,
)
from penstock.spark.inputs.plain import PLAIN, read_plainly
from penstock.spark.inputs.protobuf import protobuf_decoder
from penstock.tasks.dead_letters import dead_letter_topic

DECODED = "decoded"
# Spark puts the text of a record that it could not read, or not wholly, into a column of this name.
_CORRUPT = "_penstock_malformed"
_KIND = "kind"
# Kinds of records, as in `io.penstock.sources.RecordFilter`.
_WHOLE, _MALFORMED, _NULL_KEY, _NO_TIME = 0, 1, 2, 3
_MOST_FIELDS_NAMED = 50
_JSON = Parser("from_json")
_WHY_NULL_KEY = "the key is null or empty: several tasks could not keep its state; write a key, or set malformed: null"
# Spark's parser takes more than JSON, such as single quotes. What it does not take may be JSON of another form.
_IS_NO_JSON = (
    f"from_json({TEXT}, '{_CORRUPT} STRING', map('columnNameOfCorruptRecord', '{_CORRUPT}')).{_CORRUPT} IS NOT NULL "
    f"AND try_parse_json({TEXT}) IS NULL"
)


def decoded(session: SparkSession, source: Input, brokers: Brokers = "") -> Column:
    """The value of Kafka's record as a struct; null where nothing can be read. With a column that marks records of
    which only a part was read. `brokers`: how Kafka is reached, with the registry of its schemas.

    Raises BrokenTask when the input needs a schema and has none, or for a bad one of Avro or Protobuf, or a bad
    event_time_format, or where the cell has no registry.
    """
    if source.value_schema is None:
        raise BrokenTask(f"topic {source.full_topic}: the format {source.format} needs value_schema")
    decoder = decoder_of(session, source, brokers)
    if decoder is not None:
        return decoder.decoded()
    _require_readable_format(session, source)
    schema = StructType([*_fields(source).fields, StructField(_CORRUPT, StringType())])
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}

    def parsed(columns: StructType) -> Column:
        if source.format == "json":
            return F.from_json(F.expr(TEXT), columns, options)
        return F.from_csv(F.expr(TEXT), columns.json(), {**options, **_parser(source).options})

    by_spark = F.when(_is_huge(session, source), without_decimals(schema, parsed)).otherwise(parsed(schema))
    return read_plainly(session, source, schema, by_spark)


def decoder_of(session: SparkSession, source: Input, brokers: Brokers) -> Decoder | None:
    """What decodes the values of an input; None where Spark parses them. Raises BrokenTask as `decoded`."""
    if source.format == "avro":
        return avro_decoder(session, source, brokers)
    return protobuf_decoder(session, source, brokers) if source.format == "protobuf" else None


def _require_readable_format(session: SparkSession, source: Input) -> None:
    if source.event_time_format is None:
        return
    jvm: Any = session._jvm
    try:
        jvm.io.penstock.kafka.source.broker.FieldTimes.of(source.event_time_format, jvm.java.time.ZoneOffset.UTC)
    except IllegalArgumentException as error:
        raise BrokenTask(f"event_time_format: {error}") from error


def columns(frame: DataFrame, source: Input, *more: str | Column) -> DataFrame:
    """The columns of the value, of a frame that has it as `decoded`, after other columns of the frame."""
    return _with_event_time(frame.select(*more, f"{DECODED}.*").drop(_CORRUPT, PLAIN), source)


def input_columns(frame: DataFrame, source: Input) -> DataFrame:
    """What the query gets: the columns of the value, and those of Kafka's record that the input names."""
    metadata = [F.col(kafka).alias(name) for kafka, name in source.metadata_columns.items()]
    return _with_event_time(frame.select(f"{DECODED}.*", *metadata).drop(_CORRUPT, PLAIN), source)


def _with_event_time(frame: DataFrame, source: Input) -> DataFrame:
    if source.event_time_format is None:
        return frame
    name = event_time_name(source, struct_of(str(source.value_schema)))
    return frame.withColumn(name, F.expr(event_time(source, name_of(name))))


def event_time_of(source: Input) -> Column:
    """The event time of a frame that has the value as `decoded`."""
    if source.event_time_format is None:
        return F.col(f"{DECODED}.{source.event_time_column}")
    return F.expr(event_time(source, _written_time(source)))


def _written_time(source: Input) -> str:
    return f"{DECODED}.{name_of(event_time_name(source, struct_of(str(source.value_schema))))}"


def kind_of(session: SparkSession, source: Input) -> Column:
    """The kind of a record that is decoded: whole, malformed, with a null key that the producer put anywhere, or whole
    without an event time."""
    found = F.when(F.expr("value IS NULL"), _WHOLE).when(_is_malformed(session, source), _MALFORMED)
    if source.key_function in ("kafka", "crc32") and len(source.key_columns) == 1:
        found = found.when(F.expr(_has_no_key(source)), _NULL_KEY)
    if source.event_time_column is not None:
        found = found.when(F.expr(_has_no_time(source)), _NO_TIME)
    return found.otherwise(_WHOLE)


def is_whole(session: SparkSession, source: Input) -> Column:
    """Whether a decoded record is not malformed, null keys aside."""
    return kind_of(session, source) != _MALFORMED


def _is_malformed(session: SparkSession, source: Input) -> Column:
    unread = f"{DECODED} IS NULL"
    if source.format in ("avro", "protobuf"):
        return F.expr(unread)
    found = F.expr(f"{DECODED}.{_CORRUPT} IS NOT NULL OR NOT is_valid_utf8({TEXT})") | _is_misread(session, source)
    if source.format == "json":
        found = found | (_more(session) > 0)
    elif len(_fields(source).names) > 1:
        # Spark makes a row of nulls of it.
        found = found | F.expr("octet_length(value) = 0")
    found = F.when(F.expr(f"{DECODED}.{PLAIN}"), False).otherwise(found)
    if source.event_time_format is not None:
        unread += f" OR {is_unread(source, _written_time(source))}"
    return F.expr(unread) | found


def _is_misread(session: SparkSession, source: Input) -> Column:
    found = misread(*_suspects(source))
    if found is None:
        return F.lit(False)
    may_be = F.expr(found.guards)
    if found.has_long_numbers:
        jvm: Any = session._jvm
        may_be = may_be | JvmColumn(jvm.io.penstock.sources.LongNumbers.areIn(java_of(F.col("value"))))
    # CASE, for Spark may evaluate both sides of AND.
    return F.when(may_be, F.expr(found.proof))


def _suspects(source: Input) -> tuple[list[Suspect], StructType, Parser]:
    """The columns that may be misread, those whose texts are needed for it, and what parses them."""
    fields = _fields(source)
    found = suspects(DECODED, fields)
    if source.format == "csv":
        return found, fields, _parser(source)
    names = {each.column for each in found}
    return found, StructType([field for field in fields.fields if field.name in names]), _parser(source)


def _parser(source: Input) -> Parser:
    return Parser("from_csv", record_options(source.csv)) if source.format == "csv" else _JSON


def _is_huge(session: SparkSession, source: Input) -> Column:
    return has_huge_number(session, _fields(source), _parser(source))


def _more(session: SparkSession) -> Column:
    """Where what follows the JSON object begins; 0: nothing does."""
    jvm: Any = session._jvm
    return JvmColumn(jvm.io.penstock.sources.JsonEnd.of(java_of(F.col("value"))))


def _has_no_key(source: Input) -> str:
    key = f"{DECODED}.{name_of(source.key_columns[0])}"
    return f"{key} IS NULL OR CAST({key} AS STRING) = ''" if source.key_function == "crc32" else f"{key} IS NULL"


def _has_no_time(source: Input) -> str:
    written = f"{DECODED}.{source.event_time_column}" if source.event_time_format is None else _written_time(source)
    return f"{written} IS NULL"


def names_of(source: Input) -> str:
    """The expression for the names of the input's topics."""
    if source.topic_pattern is None:
        return regex_of_names([str(source.topic)])
    return regex_of(source.topic_pattern, source.excluded_topics)


KafkaOptions = Callable[[str | None], dict[str, str]]


class MalformedRecords:
    """Filters the inputs of one task, and writes what is malformed before each batch is committed.

    `java` is its `io.penstock.sources.MalformedRecords`. `kafka`: how Spark reads a cluster. Dead letters are on the
    cell's own.
    """

    def __init__(
        self, session: SparkSession, job: str, config: JobConfig, kafka: KafkaOptions, brokers: Brokers = ""
    ) -> None:
        jvm: Any = session._jvm
        self.java = jvm.io.penstock.sources.MalformedRecords()
        self._session = session
        self._job = job
        self._topic = dead_letter_topic(job, config)
        self._kafka = kafka
        self._brokers = brokers
        self._filters: list[Any] = []

    def rows(self, name: str, source: Input, records: DataFrame) -> DataFrame:
        """The columns of the records that reach the query."""
        jvm: Any = self._session._jvm
        context = self._session.sparkContext._jsc.sc()
        filtered = jvm.io.penstock.sources.RecordFilter(
            context, name, source.full_topic, source.malformed, float(source.malformed_limit)
        )
        decoder = decoder_of(self._session, source, self._brokers)
        value = decoded(self._session, source) if decoder is None else decoder.decoded()
        kind, reason = kind_of(self._session, source), reason_of(self._session, source, decoder)
        parts = (java_of(each) for each in (value, kind, reason))
        java = None if decoder is None else decoder.java
        kafka = (self._kafka(source.cluster), self._kafka(None))
        topics = jvm.io.penstock.sources.InputTopics(names_of(source), source.cluster)
        self.java.add(name, topics, filtered, *parts, java, *kafka, self._job, self._topic)
        if source.key_function in ("kafka", "crc32"):
            self._filters.append(filtered)
        if source.malformed != "null":
            records = records.where("value IS NOT NULL")
        needed = dict.fromkeys(("value", "partition", "offset", *source.metadata_columns))
        whole = records.select(*needed, _once(value).alias(DECODED)).where(
            _call(self._session, filtered.function(), kind, F.col("partition"), F.col("offset"))
        )
        return input_columns(whole, source)

    def refuse_null_keys(self, result: DataFrame, may_split: Callable[[], bool]) -> None:
        """Null keys have no task of their own, so where several tasks may keep the query's state they are malformed.

        Also while one task keeps it: otherwise another `task_count` would change the results.
        """
        jvm: Any = self._session._jvm
        if self._filters and jvm.io.penstock.state.KeyedOperators.keepsState(result._jdf) and may_split():
            for filtered in self._filters:
                filtered.refuseNullKeys()


def _once(value: Column) -> Column:
    """The same value. Spark repeats no expression that depends on the partition. Otherwise it would push the filter for
    malformed records below the decoding, and decode each record there, too."""
    return F.when(F.spark_partition_id() >= 0, value)


@lru_cache(maxsize=256)
def struct_of(schema: str) -> StructType:
    """The columns of a schema: DDL, which Spark parses, or the JSON of a schema with metadata. All tasks of the host
    get the same object: do not change it. Raises BrokenTask for what is no list of columns."""
    if schema.lstrip().startswith("{"):
        return StructType.fromJson(json.loads(schema))
    found: Any = StructType.fromDDL(schema)
    if not isinstance(found, StructType):
        raise BrokenTask(f"value_schema must be columns, not {schema}")
    return found


def _fields(source: Input) -> StructType:
    """The fields of the value as Spark's parser is to read them."""
    return as_written(source, struct_of(str(source.value_schema)))


def reason_of(session: SparkSession, source: Input, decoder: Decoder | None = None) -> Column:
    """Why a record of such a kind is malformed, in words. `decoder`: what decodes the input, where Spark does not."""
    why = reason_of_text(session, source) if decoder is None else decoder.reasons()
    return F.when(F.expr(f"{_KIND} = {_NULL_KEY}"), _WHY_NULL_KEY).otherwise(why)


def reason_of_text(session: SparkSession, source: Input) -> Column:
    """Of JSON or CSV. As few calls of the JVM as can be: Spark parses a text in less time."""
    return F.when(_is_huge(session, source), TOLD).otherwise(_reason_of_read(session, source))


def _reason_of_read(session: SparkSession, source: Input) -> Column:
    is_utf8 = f"WHEN NOT is_valid_utf8({TEXT}) THEN 'the value is not UTF-8'"
    found, fields, parser = _suspects(source)
    words = explanation(found[:_MOST_FIELDS_NAMED], fields, parser) or "''"
    misread_values = f"WHEN {words} != '' THEN {words}"
    if source.event_time_format is not None:
        misread_values += " " + unread_words(source, struct_of(str(source.value_schema)), DECODED)
    if source.format == "csv":
        return F.expr(f"CASE {is_utf8} {misread_values} {' '.join(_unfit_cases(source))} END")
    more, size = _more(session), F.octet_length("value")
    after = F.format_string(
        "after the JSON object come %d more bytes, from byte %d: one record holds one object", size - more, more
    )
    syntax = F.expr(f"CASE WHEN {_IS_NO_JSON} THEN 'the value is not JSON' END")
    others = F.expr(f"CASE {is_utf8} {misread_values} {' '.join(_unfit_cases(source))} END")
    return F.coalesce(syntax, F.when(more > 0, after), others)


def _unfit_cases(source: Input) -> list[str]:
    fields = _fields(source)
    named = []
    for field in fields.fields[:_MOST_FIELDS_NAMED]:
        words = f"{field.name} {field.dataType.simpleString()}"
        unread = f"texts.{name_of(field.name)} IS NOT NULL AND {DECODED}.{name_of(field.name)} IS NULL"
        named.append(f"CASE WHEN {unread} THEN {text_of(words)} END")
    strings = StructType([StructField(field.name, StringType()) for field in fields.fields])
    unread_fields = f"transform({texts(strings, _parser(source))}, texts -> concat_ws(', ', {', '.join(named)}))[0]"
    return [
        f"WHEN {unread_fields} != '' THEN concat('these fields do not fit value_schema: ', {unread_fields})",
        f"ELSE {text_of('the value does not fit value_schema' if source.format == 'json' else no_fit(fields))}",
    ]


def no_fit(fields: StructType) -> str:
    """The reason of a line of CSV whose values fit, as far as there are any."""
    return f"the line does not have {len(fields.names)} values"


def _call(session: SparkSession, function: Any, *arguments: Column) -> Column:
    """A function of Java over columns."""
    gateway: Any = session.sparkContext._gateway
    jvm: Any = session._jvm
    given = gateway.new_array(jvm.org.apache.spark.sql.Column, len(arguments))
    for place, argument in enumerate(arguments):
        given[place] = java_of(argument)
    return JvmColumn(function.apply(given))
