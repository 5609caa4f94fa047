"""Jobs of which one writes rows again that are there already."""

from __future__ import annotations

from typing import Any

from penstock.wire.job_client import JobClient
from tests.support.job_service.service import CONFIG
from tests.support.state_syncer.cell import Cell

TOPIC = CONFIG["output"]["topic"]
SOURCE = CONFIG["inputs"]["flights"]


def job(source: dict[str, Any] | None = None, **output: Any) -> dict[str, Any]:
    given = {name: value for name, value in {**SOURCE, **(source or {})}.items() if value is not None}
    late = {"completeness": "drop_late"} if "topic_pattern" in given else {}
    return {**CONFIG, **late, "inputs": {"flights": given}, "output": {**CONFIG["output"], **output}}


READY = """
    UPDATE savepoints SET state = 'ready', generation = r.generation, revision = r.revision, config = r.config
    FROM running r WHERE r.job = savepoints.job
    """
FILTER = {**job(), "query": {"sql": "SELECT origin, dest FROM flights WHERE origin = 'ZRH'"}}
CHANGED = {**job(), "query": {"sql": "SELECT dest, origin FROM flights"}}
READER = job({"topic": TOPIC}, topic="counts")


def gone(client: JobClient, cell: Cell, name: str = "etl", config: dict[str, Any] | None = None) -> None:
    """The job has run, was deleted, and is forgotten."""
    client.put_job(name, config or job(), allow_repeats=True)
    cell.rounds(2)
    client.delete_job(name)
    cell.rounds(3)
    assert name not in {each.job for each in client.list_jobs()}


def with_savepoint(client: JobClient, cell: Cell, name: str = "etl", config: dict[str, Any] | None = None) -> None:
    """The job runs, and has a savepoint `last`."""
    client.put_job(name, config or job())
    cell.rounds(1)
    client.create_savepoint(name, "last")
    cell.do(READY)
