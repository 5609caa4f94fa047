"""What a broker does not allow: the error names what is missing, and nothing is written."""

from __future__ import annotations

from collections import Counter

import pytest
from confluent_kafka.admin import AclOperation, ResourceType
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from penstock.spark.failures import failure_of
from tests.support.kafka.acls import denied
from tests.support.kafka.sink import VALUE, Pipe
from tests.support.spark.session import Feed

_SLOWLY = "concat(n, coalesce(java_method('java.lang.Thread', 'sleep', 100L), '')) AS value"


_DENIALS = (
    (ResourceType.TOPIC, AclOperation.WRITE, "kafka denies the topic {topic}: the ACL WRITE on it is needed"),
    (ResourceType.TRANSACTIONAL_ID, AclOperation.WRITE, "kafka denies transactions: the ACLs WRITE and DESCRIBE"),
    (ResourceType.GROUP, AclOperation.READ, "kafka denies the markers: the ACL READ on the groups with the prefix"),
)


def test_a_denied_acl_is_named(spark: SparkSession, feed: Feed, pipe: Pipe) -> None:
    """1. Each in turn is refused, and nothing is written. 2. Once all is allowed the same query writes every row."""
    frame = feed.frame(spark).selectExpr(VALUE)
    for resource, operation, message in _DENIALS:
        name = pipe.topic if resource is ResourceType.TOPIC else pipe.prefix
        with denied(pipe.bootstrap, resource, name, operation), pytest.raises(StreamingQueryException) as caught:
            pipe.run(frame)
        failure = failure_of(caught.value)
        assert failure.error_kind == "broken_task"
        assert message.format(topic=pipe.topic) in failure.error
        assert pipe.numbers() == Counter()
    pipe.run(frame)
    assert pipe.numbers() == Counter(range(20))


def test_a_transaction_that_timed_out_is_told_from_a_newer_owner(spark: SparkSession, feed: Feed, pipe: Pipe) -> None:
    """1. Kafka aborts it, and the error says what to raise. 2. With more time every row is there once."""
    with pytest.raises(StreamingQueryException) as caught:
        pipe.run(feed.frame(spark).selectExpr(_SLOWLY), **{"kafka.transaction.timeout.ms": 300})
    failure = failure_of(caught.value)
    assert failure.error_kind == "retryable"
    assert "was open longer than its timeout, and kafka aborted it: raise kafka.transaction.timeout.ms" in failure.error
    pipe.run(feed.frame(spark).selectExpr(VALUE))
    assert pipe.numbers() == Counter(range(20))
