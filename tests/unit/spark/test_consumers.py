"""What the shared Kafka consumers of a topic are named after."""

from __future__ import annotations

from penstock.spark.consumers import consumer_names
from penstock.spark.topics import Topic


def test_consumers_are_named_after_the_job_its_failures_and_the_topics_id() -> None:
    topics = {"clicks": Topic(4, id="a"), "orders@other": Topic(4, id="b")}
    assert consumer_names("j", 0, topics) == {"clicks": "j/0/a", "orders": "j/0/b"}
    assert consumer_names("k", 0, topics)["clicks"] != "j/0/a"
    assert consumer_names("j", 1, topics)["clicks"] != "j/0/a"


def test_a_topic_without_an_id_and_two_of_one_name_share_none() -> None:
    assert consumer_names("j", 0, {"clicks": Topic(4)}) == {}
    assert consumer_names("j", 0, {"clicks": Topic(4, id="a"), "clicks@other": Topic(4, id="b")}) == {}
