"""What jobs read and write, so that a write is compared with the few jobs that it could meet."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from sqlalchemy import Connection, text

from penstock.control.errors import UserError
from penstock.model.jobs import Change
from penstock.store.json import as_json
from services.job_service.flows import Flow, Flows, flow_of

# Two jobs that are written at once may close a loop together. Any constant will do.
_LOCK = text("SELECT pg_advisory_xact_lock(7311938841)")
_COLUMNS = "job, reads, writes, folder, may_loop, dead_letters"
_READ = text(f"SELECT {_COLUMNS} FROM flows WHERE job = ANY(:jobs)")
_WRITERS = text(f"SELECT {_COLUMNS} FROM flows WHERE writes = ANY(:topics) AND NOT may_loop")
_SHARE = text(f"SELECT {_COLUMNS} FROM flows WHERE dead_letters = ANY(:outputs) OR writes = ANY(:dead_letters)")
_OWNERS = text("SELECT folder, job FROM flows WHERE folder = ANY(:folders)")
_WRITE = text(
    f"""
    INSERT INTO flows ({_COLUMNS})
    SELECT {_COLUMNS} FROM jsonb_to_recordset(CAST(:rows AS jsonb)) AS new(
        job text, reads text[], writes text, folder text, may_loop boolean, dead_letters text)
    ON CONFLICT (job) DO UPDATE SET reads = excluded.reads, writes = excluded.writes, folder = excluded.folder,
        may_loop = excluded.may_loop, dead_letters = excluded.dead_letters
    """
)


def lock(connection: Connection) -> None:
    """Until the transaction ends no other one changes a flow."""
    connection.execute(_LOCK)


def take(connection: Connection, changes: Mapping[int, Change]) -> dict[int, UserError]:
    """Stores the flows of changes, given by position, whose jobs are locked. Why some of them must not be.

    Only one transaction a time goes beyond the first statement, until its end; it is rare that a write changes a flow.
    """
    wanted = {
        position: flow_of(change.job, change.merged)
        for position, change in changes.items()
        if change.merged is not None
    }
    stored = {flow.job: flow for flow in _read(connection, [flow.job for flow in wanted.values()])}
    changed = {position: flow for position, flow in wanted.items() if stored.get(flow.job) != flow}
    if not changed:
        return {}
    lock(connection)
    flows = _around(connection, list(changed.values()), stored)
    refused: dict[int, UserError] = {}
    for position, flow in changed.items():
        try:
            flows.take(flow, stored.get(flow.job))
        except UserError as error:
            refused[position] = error
    _write(connection, [flow for position, flow in changed.items() if position not in refused])
    return refused


def check(connection: Connection, flow: Flow) -> None:
    """Raises InvalidConfig when a write of this flow would be refused now. Changes nothing."""
    stored = {each.job: each for each in _read(connection, [flow.job])}
    _around(connection, [flow], stored).take(flow, stored.get(flow.job))


def _around(connection: Connection, flows: Sequence[Flow], stored: Mapping[str, Flow]) -> Flows:
    """`flows` are to be taken; `stored` are those of the same jobs until then."""
    known = {flow.job: flow for flow in _sharing(connection, flows)} | dict(stored)
    seen: set[str] = set()
    topics = _upstream_of((*flows, *stored.values()))
    while topics:
        seen |= topics
        writers = _flows(connection.execute(_WRITERS, {"topics": list(topics)}))
        known |= {flow.job: flow for flow in writers}
        topics = _upstream_of(writers) - seen
    folders = [flow.folder for flow in flows if flow.folder is not None]
    owners = connection.execute(_OWNERS, {"folders": folders}).all() if folders else []
    return Flows(known.values(), {row.folder: row.job for row in owners})


def _sharing(connection: Connection, flows: Sequence[Flow]) -> list[Flow]:
    """Jobs with rows or malformed records in a topic that these have for the other."""
    outputs = [flow.writes for flow in flows if flow.writes is not None]
    dead_letters = [flow.dead_letters for flow in flows if flow.dead_letters is not None]
    return _flows(connection.execute(_SHARE, {"outputs": outputs, "dead_letters": dead_letters}))


def _upstream_of(flows: Iterable[Flow]) -> set[str]:
    return {topic for flow in flows if flow.passes_on is not None for topic in flow.reads}


def _read(connection: Connection, jobs: Collection[str]) -> list[Flow]:
    return _flows(connection.execute(_READ, {"jobs": list(jobs)})) if jobs else []


def _write(connection: Connection, flows: Sequence[Flow]) -> None:
    if flows:
        connection.execute(_WRITE, {"rows": as_json([flow._asdict() for flow in flows])})


def _flows(rows: Iterable[Sequence[object]]) -> list[Flow]:
    return [Flow(job, tuple(reads), *rest) for job, reads, *rest in rows]  # type: ignore[arg-type]
