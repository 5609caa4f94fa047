"""What the shared Kafka consumers of a topic are named after."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.config.model import JobConfig
from penstock.spark.consumers import consumer_names, query_digest
from penstock.spark.topics import Topic


def config_of(*topics: str, **changed: Any) -> JobConfig:
    inputs = {
        f"i{number}": {"topic": topic.partition("@")[0], "key_groups": 4, "value_schema": "v BIGINT"}
        | ({"cluster": "other"} if "@" in topic else {})
        for number, topic in enumerate(topics)
    }
    output = {"type": "kafka", "topic": "out"}
    of = {"inputs": inputs, "query": {"sql": "SELECT v FROM i0"}, "output": output}
    return JobConfig.model_validate(of | changed)


def test_consumers_are_named_after_the_job_its_failures_its_query_and_the_topics_id() -> None:
    topics = {"clicks": Topic(4, id="a"), "orders@other": Topic(4, id="b")}
    config = config_of(*topics)
    digest = query_digest(config)
    assert consumer_names("j", 0, config, topics) == {"clicks": f"j/0/{digest}/a", "orders": f"j/0/{digest}/b"}
    assert consumer_names("k", 0, config, topics)["clicks"] != f"j/0/{digest}/a"
    assert consumer_names("j", 1, config, topics)["clicks"] != f"j/0/{digest}/a"
    other = config_of(*topics, query={"sql": "SELECT slow(v) AS v FROM i0"})
    assert consumer_names("j", 0, other, topics)["clicks"] != f"j/0/{digest}/a"


def test_a_topic_without_an_id_two_of_one_name_and_one_that_two_inputs_read_share_none() -> None:
    assert consumer_names("j", 0, config_of("clicks"), {"clicks": Topic(4)}) == {}
    both = {"clicks": Topic(4, id="a"), "clicks@other": Topic(4, id="b")}
    assert consumer_names("j", 0, config_of(*both), both) == {}
    assert consumer_names("j", 0, config_of("clicks", "clicks"), {"clicks": Topic(4, id="a")}) == {}


@pytest.mark.parametrize(
    "changed",
    [
        {"query": {"sql": "SELECT slow(v) AS v FROM i0"}},
        {"query": {"python": "jobs.slow:query"}, "package": {"name": "slow", "version": "2"}},
        {"inputs": {}, "streams": {"i0": {"format": "delta", "path": "/data/new"}}},
        {"output": {"type": "kafka", "topic": "other"}},
        {"args": {"rate": 1.0}},
    ],
)
def test_another_query_has_another_digest(changed: dict[str, Any]) -> None:
    assert query_digest(config_of("clicks", **changed)) != query_digest(config_of("clicks"))


def test_a_rescale_and_other_limits_leave_the_digest() -> None:
    changed = {"task_count": 3, "max_batch_seconds": 20, "owner": "ann", "completeness": "drop_late"}
    assert query_digest(config_of("clicks", **changed)) == query_digest(config_of("clicks"))
