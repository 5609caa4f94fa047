"""What the shared Kafka consumers of a topic are named after."""

from __future__ import annotations

from penstock.config.model import JobConfig
from penstock.spark.consumers import consumer_names
from penstock.spark.topics import Topic


def config_of(*topics: str) -> JobConfig:
    inputs = {
        f"i{number}": {"topic": topic.partition("@")[0], "key_groups": 4, "value_schema": "v BIGINT"}
        | ({"cluster": "other"} if "@" in topic else {})
        for number, topic in enumerate(topics)
    }
    output = {"type": "kafka", "topic": "out"}
    return JobConfig.model_validate({"inputs": inputs, "query": {"sql": "SELECT v FROM i0"}, "output": output})


def test_consumers_are_named_after_the_job_its_failures_and_the_topics_id() -> None:
    topics = {"clicks": Topic(4, id="a"), "orders@other": Topic(4, id="b")}
    config = config_of(*topics)
    assert consumer_names("j", 0, config, topics) == {"clicks": "j/0/a", "orders": "j/0/b"}
    assert consumer_names("k", 0, config, topics)["clicks"] != "j/0/a"
    assert consumer_names("j", 1, config, topics)["clicks"] != "j/0/a"


def test_a_topic_without_an_id_two_of_one_name_and_one_that_two_inputs_read_share_none() -> None:
    assert consumer_names("j", 0, config_of("clicks"), {"clicks": Topic(4)}) == {}
    both = {"clicks": Topic(4, id="a"), "clicks@other": Topic(4, id="b")}
    assert consumer_names("j", 0, config_of(*both), both) == {}
    assert consumer_names("j", 0, config_of("clicks", "clicks"), {"clicks": Topic(4, id="a")}) == {}
