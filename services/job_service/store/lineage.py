"""The jobs around a job, found level by level by the topics that they read and write."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet

from sqlalchemy import Connection

from services.job_service.flows import Flow, stored_at
from services.job_service.lineage import Around, Found, around, topics_filled, topics_read
from services.job_service.store import flows


def read_around(connection: Connection, job: str, depth: int) -> Around:
    """The graph around a job that exists: two statements for each step, whatever the number of jobs."""

    def upstream(level: Sequence[Flow], seen: AbstractSet[str], limit: int) -> Sequence[Flow]:
        return flows.fillers(connection, topics_read(level), seen, limit)

    def downstream(level: Sequence[Flow], seen: AbstractSet[str], limit: int) -> Sequence[Flow]:
        return flows.readers(connection, topics_filled(level), seen, limit)

    return around(flows.read(connection, job), upstream, downstream, depth)


def read_stores(connection: Connection, found: Sequence[Found]) -> dict[str, str]:
    """The folder or table of each of the jobs that writes to one. A flow has none of a job that shares it."""
    own = {flow.job: flow.folder for flow, _ in found if flow.folder is not None}
    others = [flow.job for flow, _ in found if flow.folder is None and flow.writes is None]
    shared = {job: stored_at(output) for job, output in flows.outputs(connection, others).items()}
    return own | {job: store for job, store in shared.items() if store is not None}
