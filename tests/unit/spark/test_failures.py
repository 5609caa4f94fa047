"""Exceptions to the kinds that a Task Manager acts upon."""

from __future__ import annotations

import pytest

from penstock.spark.failures import Cause, classify, python_reason

STREAM_FAILED = "org.apache.spark.sql.streaming.StreamingQueryException"
BATCH = "An exception was raised by the Python Proxy. Traceback:\n  File x\npenstock.control.errors.{}\n"


@pytest.mark.parametrize(
    ("causes", "kind"),
    [
        (
            [Cause("io.penstock.checkpoint.FencedException", "FENCED: token 1.1 was replaced by 2.1 in /ck/FENCE")],
            "fenced",
        ),
        (
            [Cause(STREAM_FAILED, "Job aborted"), Cause("java.io.IOException", "FENCED: token 1.1 was replaced")],
            "fenced",
        ),
        ([Cause(STREAM_FAILED, "[CONCURRENT_STREAM_LOG_UPDATE] Concurrent update to the log.")], "fenced"),
        ([Cause(STREAM_FAILED, "x"), Cause("java.lang.IllegalStateException", "Race while writing batch 6")], "fenced"),
        ([Cause("org.apache.kafka.common.errors.ProducerFencedException", "There is a newer producer")], "fenced"),
        ([Cause("Fenced", "FENCED: epoch 1 is older than 2")], "fenced"),
        (
            [Cause(STREAM_FAILED, "x"), Cause("io.penstock.kafka.sink.errors.FencedSinkException", "FENCED: newer")],
            "fenced",
        ),
        (
            [Cause(STREAM_FAILED, "x"), Cause("io.penstock.kafka.sink.errors.BrokenSinkException", "went back")],
            "broken_task",
        ),
        (
            [Cause(STREAM_FAILED, "x"), Cause("io.penstock.kafka.sink.errors.RetryableSinkException", "again")],
            "retryable",
        ),
        ([Cause("org.apache.kafka.common.errors.FencedLeaderEpochException", "FENCED_LEADER_EPOCH")], "retryable"),
        ([Cause("AnalysisException", "[UNRESOLVED_COLUMN] x"), Cause("org.apache.spark.sql.Ext", "x")], "broken_task"),
        ([Cause(STREAM_FAILED, "x"), Cause("org.apache.spark.SparkArithmeticException", "/ by zero")], "broken_task"),
        ([Cause("org.apache.kafka.common.errors.UnknownTopicOrPartitionException", "no topic")], "broken_task"),
        ([Cause("BrokenTask", "query: no")], "broken_task"),
        ([Cause(STREAM_FAILED, "x"), Cause("org.apache.kafka.common.errors.TimeoutException", "x")], "retryable"),
        ([Cause("Unavailable", "kafka cannot be reached")], "retryable"),
        ([Cause(STREAM_FAILED, "x"), Cause("py4j.Py4JException", BATCH.format("BrokenTask: no key"))], "broken_task"),
        ([Cause(STREAM_FAILED, "x"), Cause("py4j.Py4JException", BATCH.format("Unavailable: away"))], "retryable"),
    ],
)
def test_kind(causes: list[Cause], kind: str) -> None:
    failure = classify(causes)
    assert (failure.error_kind, failure.out_of_memory) == (kind, False)


@pytest.mark.parametrize(
    "cause",
    [Cause("java.lang.OutOfMemoryError", "Java heap space"), Cause("X", "java.lang.OutOfMemoryError: GC overhead")],
)
def test_out_of_memory_anywhere_in_the_chain(cause: Cause) -> None:
    failure = classify([Cause(STREAM_FAILED, "Job aborted"), cause])
    assert failure.out_of_memory
    assert failure.error_kind == "retryable"


def test_the_innermost_message_comes_first() -> None:
    failure = classify([Cause(STREAM_FAILED, "Job aborted"), Cause("java.io.IOException", "disk full")])
    assert failure.error == "disk full (IOException)"
    written = [Cause("A", "the log cannot be written"), Cause("java.io.IOException", "disk full")]
    assert classify(written).error == "disk full (IOException): the log cannot be written"
    assert classify([Cause("A", "it failed: disk full"), Cause("B", "disk full")]).error == "it failed: disk full"


def test_a_topic_that_was_made_again_is_told_with_what_to_do() -> None:
    """As Spark's Kafka source fails, whose text proposes to lose data."""
    reason = "set failOnDataLoss to false.\nReason: Partition my-rows-3 offset was changed from 10 to 3."
    failure = classify(
        [Cause(STREAM_FAILED, reason), Cause("org.apache.spark.sql.kafka010.KafkaIllegalStateException", reason)]
    )
    assert failure.error_kind == "broken_task"
    assert failure.error.startswith(
        "inputs: partition 3 of the topic my-rows ends at 3, and this task has read to 10. Either"
    )
    assert failure.error.index("Keep the job until you know") < failure.error.index("Delete the job")
    assert "If records are lost: " in failure.error


def test_plans_and_stacks_are_left_out() -> None:
    analysis = (
        "[UNRESOLVED_COLUMN] no `x`. SQLSTATE: 42703; line 1 pos 7;\n'Project ['x]\n+- Relation kafka, password=p"
    )
    assert classify([Cause("AnalysisException", analysis)]).error == "[UNRESOLVED_COLUMN] no `x` (line 1, position 7)"
    parse = "\n[PARSE_SYNTAX_ERROR] near 'x'. SQLSTATE: 42601 (line 1, pos 3)\n\n== SQL ==\nSEL x"
    assert classify([Cause("ParseException", parse)]).error == "[PARSE_SYNTAX_ERROR] near 'x' (line 1, position 3)"
    stack = "it broke\n\tat org.x.Y.z(Y.java:1)\n\tat org.x.Y.w(Y.java:2)"
    assert classify([Cause("E", stack)]).error == "it broke (E)"
    plan = "it broke;\nProject [x#1]\n+- ~Relation kafka, password=p"
    assert "password" not in classify([Cause("E", plan)]).error


WORKER = """Job aborted due to stage failure: Task 0 in stage 9.0 failed 1 times, most recent failure: \
Lost task 0.0 in stage 9.0 (TID 9): org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "/venv/lib/python3.11/site-packages/pyspark/python/lib/pyspark.zip/pyspark/worker.py", line 1979, in main
    process()
  File "/packages/flights-1.zip/flights/rules.py", line 12, in late
    return minutes(delay) / 0
  File "/packages/flights-1.zip/flights/rules.py", line 20, in minutes
ZeroDivisionError: division by zero

\tat org.apache.spark.api.python.BasePythonRunner.handlePythonException(PythonRunner.scala:1)
"""


@pytest.mark.parametrize("what", ["Key", "Value"])
def test_a_state_of_another_query_is_told_with_what_helps(what: str) -> None:
    """Spark's own advice is to switch its check off, after which results are wrong."""
    low = what.lower()
    head = f"[STATE_STORE_{what.upper()}_SCHEMA_NOT_COMPATIBLE] Provided {low} schema does not match. "
    schemas = f"Existing {low}_schema=StructType(a) and new {low}_schema=StructType(b). "
    message = (
        f"{head}Please check number and type of fields. {schemas}If you want to force running the query without schema "
        "validation, please set spark.sql.streaming.stateStore.stateSchemaCheck to false. However, please note that "
        "running the query with incompatible schema could cause non-deterministic behavior. SQLSTATE: 42K06"
    )
    cause = Cause(f"org.apache.spark.sql.execution.streaming.state.StateStore{what}SchemaNotCompatible", message)
    failure = classify([Cause(STREAM_FAILED, "[STREAM_FAILED] Query terminated"), cause])
    assert failure.error_kind == "broken_task"
    assert failure.error == (
        f"{head}{schemas}The state was kept by another query: go back to that query, or create a job with another name "
        "for this one"
    )


def test_an_error_of_python_code_is_told_with_the_frames_of_its_own_files() -> None:
    failure = classify([Cause(STREAM_FAILED, "[STREAM_FAILED] Query terminated"), Cause("SparkException", WORKER)])
    assert failure.error == (
        "ZeroDivisionError: division by zero\n"
        "  at rules.py:20 in minutes\n"
        "  at rules.py:12 in late: return minutes(delay) / 0"
    )


def test_a_python_error_of_several_lines_is_told_whole() -> None:
    raised = (
        'Traceback (most recent call last):\n  File "/p/m.py", line 3, in f\nValueError: two things:\n  one\n  two\n\n'
    )
    assert python_reason(f"{raised}\tat org.x.Y") == "ValueError: two things:\n  one\n  two\n  at m.py:3 in f"


def test_what_a_sink_raised_is_told_without_its_class() -> None:
    batch = BATCH.replace("Traceback:", "Return Message: Traceback (most recent call last):")
    raised = Cause("py4j.Py4JException", batch.format("BrokenTask: output.table: the table t has no column x"))
    assert classify([Cause(STREAM_FAILED, "x"), raised]).error == "output.table: the table t has no column x"


PROXY = """An exception was raised by the Python Proxy. Return Message: Traceback (most recent call last):
  File "/venv/lib/python3.11/site-packages/py4j/clientserver.py", line 644, in _call_proxy
    return_value = getattr(self.pool[obj_id], method)(*params)
  File "/app/penstock/spark/sinks/spool.py", line 45, in _arrow_batches
    server.getResult()
"""
THROWN = """py4j.protocol.Py4JJavaError: An error occurred while calling o101.getResult.
: org.apache.spark.SparkException: Exception thrown in awaitResult:\x20
	at org.apache.spark.util.SparkThreadUtils$.awaitResult(SparkThreadUtils.scala:70)
	at org.apache.spark.util.SparkThreadUtils$.awaitResult(SparkThreadUtils.scala:44)
{}
"""
CAST = """Caused by: org.apache.spark.SparkNumberFormatException: [CAST_INVALID_INPUT] '{}' is no INT. SQLSTATE: 22018
== SQL (line 1, position 1) ==
CAST(key AS INT) AS delay
^^^^^^^^^^^^^^^^

	at org.apache.spark.sql.errors.QueryExecutionErrors$.invalidInputInCastToNumberError(QueryExecutionErrors.scala:148)
	... 34 more
"""
MALFORMED = """Caused by: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 failed 1 times:
	at org.apache.spark.executor.Executor$TaskRunner.run(Executor.scala:897)

Driver stacktrace:
	at org.apache.spark.scheduler.DAGScheduler.runJob(DAGScheduler.scala:1063)
	Suppressed: org.apache.kafka.common.errors.ProducerFencedException: of another
		at org.x.Y.z(Y.java:1)
Caused by: io.penstock.sources.MalformedRecordException: inputs.x: 9 of 9 records are malformed
	at io.penstock.sources.Malformed.tell(Malformed.java:1)
"""
DISK = """Caused by: java.lang.RuntimeException
	at org.x.Y.z(Y.java:1)
Caused by: java.io.IOException: No space left on device
	... 12 more
"""


@pytest.mark.parametrize(
    ("ending", "error", "kind"),
    [
        (
            THROWN.format(CAST.format("item-1")),
            "[CAST_INVALID_INPUT] 'item-1' is no INT: CAST(key AS INT) AS delay",
            "broken_task",
        ),
        (THROWN.format(MALFORMED), "inputs.x: 9 of 9 records are malformed", "broken_task"),
        (THROWN.format(DISK), "No space left on device (IOException)", "retryable"),
        (
            THROWN.format(
                f"Caused by: org.apache.spark.api.python.PythonException: {WORKER.partition('Exception: ')[2]}"
            ),
            "ZeroDivisionError: division by zero\n"
            "  at rules.py:20 in minutes\n"
            "  at rules.py:12 in late: return minutes(delay) / 0",
            "retryable",
        ),
        (
            "pyspark.errors.exceptions.captured.NumberFormatException: [CAST_INVALID_INPUT] no INT. SQLSTATE: 22018\n",
            "[CAST_INVALID_INPUT] no INT",
            "broken_task",
        ),
        (
            "pyspark.errors.exceptions.captured.IllegalArgumentException: no such file\n",
            "no such file (IllegalArgumentException)",
            "retryable",
        ),
        ("KeyError: 'delay'\n", "KeyError: 'delay'", "retryable"),
    ],
    ids=["cast", "malformed", "disk", "worker", "captured", "captured-other", "python"],
)
def test_what_a_sink_in_python_passed_on_is_told_as_if_spark_had_thrown_it(ending: str, error: str, kind: str) -> None:
    """Spark has only the text of it: printed stacks below a traceback, in each exception of the chain."""
    streaming = f"[STREAM_FAILED] Query terminated with exception: {PROXY}{ending} SQLSTATE: XXKST\n=== Query ==="
    failure = classify([Cause(STREAM_FAILED, streaming), Cause("py4j.Py4JException", PROXY + ending)])
    assert (failure.error, failure.error_kind) == (error, kind)


JSON = "file:///in/a b.1.json"
READING = f"[FAILED_READ_FILE.NO_HINT] Encountered error while reading file {JSON}.  SQLSTATE: KD001"
LINE = (
    "[MALFORMED_RECORD_IN_PARSING.WITHOUT_SUGGESTION] Malformed records are detected in record parsing: [null,x.].\n"
    "Parse Mode: FAILFAST. To process malformed records as null result, try setting 'mode'.  SQLSTATE: 22023"
)
MEND = 'Mend the file, or set `malformed` of the stream or table to the text "null"'


@pytest.mark.parametrize(
    ("inner", "error"),
    [
        (
            [
                Cause("SparkException", LINE),
                Cause("SparkRuntimeException", "[CANNOT_PARSE] zz is no INT. SQLSTATE: 22018"),
            ],
            f"a line of the file {JSON} is malformed, read as [null,x.]: [CANNOT_PARSE] zz is no INT. {MEND}",
        ),
        (
            [Cause("SparkException", LINE)],
            f"a line of the file {JSON} is malformed, read as [null,x.]. {MEND}",
        ),
        (
            [Cause("java.io.IOException", "bad magic")],
            f"bad magic (IOException): in the file {JSON}",
        ),
        (
            [Cause("x.SparkIllegalArgumentException", f"CSV header does not conform. CSV file: {JSON}")],
            f"CSV header does not conform. CSV file: {JSON} (SparkIllegalArgumentException)",
        ),
    ],
)
def test_a_file_that_cannot_be_read_is_named(inner: list[Cause], error: str) -> None:
    """With what Spark made of a malformed line, also where a sink in Python passed the error on."""
    spark = [Cause("org.apache.spark.SparkException", READING), *inner]
    assert classify([Cause(STREAM_FAILED, f"[STREAM_FAILED] terminated: {READING}"), *spark]).error == error


def test_the_place_in_the_query_is_kept() -> None:
    divided = (
        "[DIVIDE_BY_ZERO] Division by zero. Use `try_divide`. SQLSTATE: 22012\n"
        "== SQL (line 1, position 8) ==\nSELECT delay / 0 FROM f\n       ^^^^^^^^^\n"
    )
    failure = classify([Cause(STREAM_FAILED, "[STREAM_FAILED] x"), Cause("SparkArithmeticException", divided)])
    assert failure.error == "[DIVIDE_BY_ZERO] Division by zero. Use `try_divide`: SELECT delay / 0 FROM f"


def test_long_messages_are_cut() -> None:
    assert len(classify([Cause("E", "x" * 10_000)]).error) == 2000


def test_what_no_store_takes_is_replaced_in_an_error() -> None:
    cast = "[CAST_INVALID_INPUT] The value '12\x00x' of the type \"STRING\" cannot be cast"
    assert "\x00" not in classify([Cause("SparkNumberFormatException", cast)]).error
    assert python_reason("ValueError: \ud800") == "ValueError: \ufffd"
