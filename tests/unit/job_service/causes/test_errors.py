"""What errors of tasks say about the cause: texts as tasks report them."""

from __future__ import annotations

import pytest

from penstock.model.causes import CauseKind
from services.job_service.causes.errors import kind_of

ERRORS = [
    ("query: [UNRESOLVED_COLUMN.WITH_SUGGESTION] A column `delay` cannot be resolved", CauseKind.BAD_CODE),
    ("[DIVIDE_BY_ZERO] Division by zero: a / b (line 1, position 7)", CauseKind.BAD_CODE),
    ("ValueError: 3 is no delay\n  at delays.py:4 in parse: return table[delay]", CauseKind.BAD_CODE),
    ("package.digest: delays-2.zip has the digest sha256:a, not sha256:b", CauseKind.BAD_CODE),
    ("secrets.password: the container has no secret db", CauseKind.BAD_CODE),
    (
        "flights: a record of the topic flights does not fit value_schema, and malformed is fail",
        CauseKind.MALFORMED_INPUT,
    ),
    (
        "flights: 60 of 100 records of the topic flights are malformed (in partition 3), which is more than "
        "malformed_limit 0.5: does value_schema fit the topic, and have its records keys?",
        CauseKind.MALFORMED_INPUT,
    ),
    (
        "a line of the file file:///in/1.json is malformed, read as [null,x]: [CANNOT_PARSE_JSON_FIELD] Cannot parse",
        CauseKind.MALFORMED_INPUT,
    ),
    ("CSV header does not conform to the schema. (SparkIllegalArgumentException)", CauseKind.MALFORMED_INPUT),
    ("Java heap space (OutOfMemoryError)", CauseKind.OUT_OF_MEMORY),
    ("its host was killed: out of memory", CauseKind.OUT_OF_MEMORY),
    ("host h7 ended: jvm died", CauseKind.HOST_ENDED),
    ("its Spark host did not start: not started", CauseKind.HOST_ENDED),
    ("its Spark host did not start: not started: Error: Could not create the Java VM", CauseKind.HOST_ENDED),
    ("its Spark host did not start: package: rules 3 is missing: there is no file rules-3.zip", CauseKind.BAD_CODE),
    ("ValueError: the host x ended: late\n  at m.py:3 in boom", CauseKind.BAD_CODE),
    ("postgres cannot serve the sink now: connection refused", CauseKind.OUTPUT_ERROR),
    ("postgres refuses: null value in column a", CauseKind.OUTPUT_ERROR),
    ("output.path: nothing can be written below /x: read-only", CauseKind.OUTPUT_ERROR),
    ("output.key_groups: the topic clean has 3 partitions, not 8", CauseKind.OUTPUT_ERROR),
    ("the Delta table /x cannot be created now: 503", CauseKind.OUTPUT_ERROR),
    ("kafka did not take the last mark of etl in marks: 3", CauseKind.OUTPUT_ERROR),
    ("kafka refuses the user bob (PLAIN) at kafka:9092: Authentication failed", CauseKind.KAFKA_LOGIN),
    ("Authentication failed: Invalid username or password (SaslAuthenticationException)", CauseKind.KAFKA_LOGIN),
    ("SSL handshake failed (SslAuthenticationException)", CauseKind.KAFKA_LOGIN),
    ("kafka did not describe the topics flights: timed out", CauseKind.INPUT_ERROR),
    ("kafka did not list its topics: timed out", CauseKind.INPUT_ERROR),
    ("This server does not host this topic-partition. (UnknownTopicOrPartitionException)", CauseKind.INPUT_ERROR),
    ("inputs: partition 3 of the topic flights ends at 4, and this task has read to 9", CauseKind.INPUT_ERROR),
    ("tables.airports.header: the first line names other columns", CauseKind.INPUT_ERROR),
    ("Timeout expired after 60000ms while awaiting describeTopics (TimeoutException)", CauseKind.INPUT_ERROR),
    ("Failed to delete the folder (IOException)", CauseKind.OTHER_ERROR),
    ("", CauseKind.OTHER_ERROR),
]


@pytest.mark.parametrize(("error", "kind"), ERRORS, ids=range(len(ERRORS)))
def test_the_kind_of_an_error(error: str, kind: CauseKind) -> None:
    assert kind_of(error) is kind


def test_what_the_supervisor_saw_counts_more_than_the_text() -> None:
    assert kind_of("its Spark host ended with code -9", out_of_memory=True) is CauseKind.OUT_OF_MEMORY
