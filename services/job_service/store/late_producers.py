"""The jobs that a write could make late, or be late for."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from sqlalchemy import Connection, text

from penstock.control.errors import UserError
from penstock.model.jobs import Change
from services.job_service.late_producers import may_matter, require_no_late_rows, unmarked, waits_for
from services.job_service.store import flows

# A topic may have thousands of readers. One that must not be is found by its own next write, too.
_MOST_READ = 200
_CONFIGS = text(
    """
    SELECT job, jsonb_build_object('inputs', config->'inputs', 'output', config->'output',
        'side_outputs', config->'side_outputs') AS config
    FROM expected_configs WHERE job = ANY(:jobs)
    """
)


def refused(connection: Connection, changes: Mapping[int, Change]) -> dict[int, UserError]:
    """Why some of the changes, given by position, must not be."""
    found: dict[int, UserError] = {}
    for position, change in changes.items():
        if change.merged is None or not may_matter(change.old or {}, change.new or {}):
            continue
        try:
            check(connection, change.job, change.merged)
        except UserError as error:
            found[position] = error
    return found


def check(connection: Connection, job: str, config: Mapping[str, Any]) -> None:
    """Raises InvalidConfig when a write of this configuration would be refused now. Changes nothing."""
    reads, writes = waits_for(config), unmarked(config)
    if not reads and not writes:
        return
    around = [
        *flows.readers(connection, writes, [job], _MOST_READ),
        *flows.fillers(connection, reads, [job], _MOST_READ),
    ]
    known = _configs(connection, {job, *(flow.job for flow in around)})
    before = known.pop(job, {"output": {}})
    require_no_late_rows(job, before, config, known)


def _configs(connection: Connection, jobs: Collection[str]) -> dict[str, Mapping[str, Any]]:
    return {row.job: row.config for row in connection.execute(_CONFIGS, {"jobs": list(jobs)})}
