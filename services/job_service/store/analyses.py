"""Whom to ask for an analysis, and which topics other jobs will make."""

from __future__ import annotations

from sqlalchemy import Connection, text

from penstock.config.topics import topic_and_cluster
from penstock.tasks.selectors import meets, offered

_LIVE = text("SELECT name, url, region, labels FROM containers WHERE state = 'live' ORDER BY name")
_WRITES_TOPIC = text(
    """
    SELECT EXISTS (SELECT FROM expected_configs
        WHERE job <> :job AND config->'output'->>'type' = 'kafka' AND config->'output'->>'topic' = :topic
            AND config->'output'->>'cluster' IS NOT DISTINCT FROM CAST(:cluster AS text))
    """
)


def live_urls(connection: Connection, selector: str | None) -> list[str]:
    """The addresses of the live containers that meet a job's selector, by name."""
    return [row.url for row in connection.execute(_LIVE) if meets(offered(row.region, row.labels), selector)]


def is_written(connection: Connection, topic: str, *, besides: str) -> bool:
    """Whether another job than `besides` writes to a topic, by its full name. Reads all configurations: rarely
    asked."""
    name, cluster = topic_and_cluster(topic)
    return bool(connection.execute(_WRITES_TOPIC, {"job": besides, "topic": name, "cluster": cluster}).scalar_one())
