"""Whom to ask for an analysis, and which topics other jobs will make."""

from __future__ import annotations

from sqlalchemy import Connection, text

from penstock.config.topics import full_topic
from penstock.tasks.selectors import meets, offered

_LIVE = text("SELECT name, url, region, labels FROM containers WHERE state = 'live' ORDER BY name")
_WRITTEN = text(
    """
    SELECT DISTINCT output->>'topic' AS topic, output->>'cluster' AS cluster
    FROM expected_configs, LATERAL (
        SELECT config->'output' UNION ALL SELECT jsonb_path_query(config, '$.side_outputs.*.output')) AS outputs(output)
    WHERE job <> :job AND output->>'type' = 'kafka'
    """
)

_HAS_RUN = text("SELECT EXISTS (SELECT FROM running WHERE job = :job)")


def live_urls(connection: Connection, selector: str | None) -> list[str]:
    """The addresses of the live containers that meet a job's selector, by name."""
    return [row.url for row in connection.execute(_LIVE) if meets(offered(row.region, row.labels), selector)]


def topics_written(connection: Connection, *, besides: str) -> set[str]:
    """The full names of the topics that other jobs than `besides` write. Reads all configurations: rarely asked."""
    return {full_topic(*row) for row in connection.execute(_WRITTEN, {"job": besides})}


def has_run(connection: Connection, job: str) -> bool:
    """Whether tasks of a job have been brought to run, so that they have checkpoints."""
    return bool(connection.execute(_HAS_RUN, {"job": job}).scalar_one())
