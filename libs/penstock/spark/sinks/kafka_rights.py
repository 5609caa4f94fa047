"""What Kafka must allow before a task can write a topic (`libs/penstock/kafka/README.md`). Nothing is made."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AclOperation  # type: ignore[attr-defined]
from confluent_kafka.cimpl import NewTopic
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from penstock.control.errors import BrokenTask, Unavailable
from penstock.control.process import wait_until
from penstock.kafka.access import Brokers, kafka_at
from penstock.spark.topics import ANSWER_SECONDS, DENIED, admin

_BROKER_DEFAULT = -1
_MILLIS = 1000
_NO_COORDINATOR_YET = frozenset(
    {KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_NOT_AVAILABLE, KafkaError.COORDINATOR_LOAD_IN_PROGRESS}
)
_DENIED_ID = "TransactionalIdAuthorizationException"


def require_may_create(brokers: Brokers, topic: str, key_groups: int | None) -> None:
    """Raises BrokenTask where the account may not create a missing topic, Unavailable where Kafka does not say."""
    new = NewTopic(topic, num_partitions=key_groups or _BROKER_DEFAULT, replication_factor=_BROKER_DEFAULT)
    try:
        asked = admin(brokers).create_topics([new], validate_only=True, request_timeout=ANSWER_SECONDS)
        asked[topic].result(ANSWER_SECONDS)
    except KafkaException as error:
        code = error.args[0].code()
        if code in DENIED:
            raise may_not_create(topic) from error
        if code != KafkaError.TOPIC_ALREADY_EXISTS:
            raise Unavailable(f"kafka did not say whether the topic {topic} may be created: {error}") from error


def may_not_create(topic: str) -> BrokenTask:
    """Why a missing topic is not made."""
    told = f"output.topic: the hosts' account may not create the topic {topic}: create it, or grant CREATE"
    return BrokenTask(told, rule="topic_writable")


def require_may_commit(session: SparkSession, brokers: Brokers, series: str) -> None:
    """Raises BrokenTask where the account may not use the group or the transactional id of a series, Unavailable where
    Kafka does not answer. That it lacks WRITE alone on the ids shows only in the first batch: no question tells."""
    _require_group(brokers, series)
    _require_transactions(session, brokers, series)


def _require_group(brokers: Brokers, group: str) -> None:
    """A group need not exist. The first one of a cluster has no coordinator for a moment."""
    try:
        rights = wait_until(lambda: _rights_of_group(brokers, group), ANSWER_SECONDS, f"the group {group}")
    except TimeoutError as error:
        raise Unavailable(f"kafka did not say whether the group {group} may be used: {error}") from error
    if AclOperation.READ not in rights:
        told = f"output: the hosts' account may not use the group {group}, where output exactly once has its markers"
        raise BrokenTask(f"{told}: grant READ on groups with the prefix penstock-", rule="group_usable")


def _rights_of_group(brokers: Brokers, group: str) -> Collection[AclOperation]:
    """What the account may do; nothing while no coordinator answers. Who may not even describe the group has no READ,
    which implies it."""
    try:
        asked = admin(brokers).describe_consumer_groups(
            [group], include_authorized_operations=True, request_timeout=ANSWER_SECONDS
        )
        rights = asked[group].result(ANSWER_SECONDS).authorized_operations
    except KafkaException as error:
        code = error.args[0].code()
        if code in _NO_COORDINATOR_YET:
            return ()
        if code != KafkaError.GROUP_AUTHORIZATION_FAILED:
            raise Unavailable(f"kafka did not say whether the group {group} may be used: {error}") from error
        return (AclOperation.UNKNOWN,)
    return rights or (AclOperation.READ,)  # A broker that tells no rights denies nothing.


def _require_transactions(session: SparkSession, brokers: Brokers, transactional_id: str) -> None:
    """Who may not describe an id has no WRITE, which implies it."""
    jvm: Any = session._jvm
    settings = jvm.java.util.HashMap(kafka_at(brokers).java_settings())
    client = jvm.org.apache.kafka.clients.admin.Admin.create(settings)
    try:
        asked = client.describeTransactions([transactional_id]).description(transactional_id)
        asked.get(int(ANSWER_SECONDS * _MILLIS), jvm.java.util.concurrent.TimeUnit.MILLISECONDS)
    except Py4JJavaError as error:
        name = _cause(error).getClass().getSimpleName()
        if name == _DENIED_ID:
            told = f"output: the hosts' account may not use the transactional id {transactional_id}"
            needed = "grant WRITE and DESCRIBE on transactional ids with the prefix penstock-"
            raise BrokenTask(f"{told}: {needed}", rule="transactions_usable") from None
        if name != "TransactionalIdNotFoundException":
            told = f"kafka did not say whether the transactional id {transactional_id} may be used: {name}"
            raise Unavailable(told) from error
    finally:
        client.close(jvm.java.time.Duration.ZERO)


def _cause(error: Py4JJavaError) -> Any:
    """What went wrong, inside of the exception of the future."""
    return error.java_exception.getCause() or error.java_exception
