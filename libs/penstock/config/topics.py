"""Names of topics in a cell: with the Kafka cluster that a topic is on, unless it is the cell's own. Pure.

Topics of one name on two clusters are two topics. So whatever compares topics compares these names.
"""

from __future__ import annotations

# Neither a topic nor a cluster has it in its name, and no path is without a slash.
_SEPARATOR = "@"


def full_topic(topic: str, cluster: str | None) -> str:
    """`orders@eu`; of the cell's own cluster `orders`. `io.penstock.kafka.source.offsets.ClusterNames` does the same
    in offsets."""
    return topic if cluster is None else f"{topic}{_SEPARATOR}{cluster}"


def topic_and_cluster(name: str) -> tuple[str, str | None]:
    """What `full_topic` was made of."""
    topic, _, cluster = name.partition(_SEPARATOR)
    return topic, cluster or None
