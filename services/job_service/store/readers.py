"""The jobs that read what a job writes."""

from __future__ import annotations

from sqlalchemy import Connection

from services.job_service.lineage import topics_filled
from services.job_service.store import expected, flows

_MOST_NAMED = 100


def read_readers(connection: Connection, job: str) -> list[str]:
    """At most a hundred jobs by name that read where a job writes, and are not being deleted. None where there is no
    such job."""
    found = flows.readers(connection, topics_filled([flows.read(connection, job)]), [job], _MOST_NAMED)
    stored = expected.read(connection, [flow.job for flow in found])
    return [name for name, reader in sorted(stored.items()) if not reader.deleting]
