"""What `GET /v1/status` reads: leaders, rounds, containers and their reports, open alerts, the schema."""

from __future__ import annotations

from sqlalchemy import Connection, text

from penstock.store.rounds import read_rounds
from penstock.store.rows import columns, read_all
from services.job_service.cell_facts import CellFacts, ContainerFacts, Leader

_LEADERS = text(
    f"""
    SELECT {columns(Leader)} FROM (
        SELECT name AS loop, holder, url, epoch,
            GREATEST(CAST(extract(epoch FROM GREATEST(expires_at, '1970-01-01') - clock_timestamp())
                AS double precision), -1e9) AS seconds_left
        FROM leases
    ) AS led ORDER BY loop
    """
)
_CONTAINERS = text(
    f"""
    SELECT {columns(ContainerFacts)} FROM (
        SELECT c.name, c.state = 'live' AS is_live, c.availability, c.registered_at,
            CAST(extract(epoch FROM clock_timestamp() - GREATEST(c.heartbeat_at, c.lease_renewed_at))
                AS double precision) AS heartbeat_age_seconds,
            CAST(extract(epoch FROM clock_timestamp() - r.reported_at) AS double precision) AS report_age_seconds
        FROM containers c LEFT JOIN reports r ON r.container = c.name AND r.incarnation = c.incarnation
    ) AS seen ORDER BY name
    """
)
_ALERTS = text("SELECT kind, count(*) AS number FROM alerts WHERE cleared_at IS NULL GROUP BY kind ORDER BY kind")
_SCHEMA = text("SELECT version_num FROM alembic_version")


def read_cell(connection: Connection) -> CellFacts:
    """All of it."""
    return CellFacts(
        read_all(connection, Leader, _LEADERS),
        read_rounds(connection),
        read_all(connection, ContainerFacts, _CONTAINERS),
        {row.kind: row.number for row in connection.execute(_ALERTS)},
        str(connection.execute(_SCHEMA).scalar_one()),
    )
