"""What jobs read and write, so that a write is compared with the few jobs that it could meet."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from itertools import starmap
from typing import Any, NamedTuple

from sqlalchemy import Connection, TextClause, text

from penstock.config.topic_patterns import beginning, covers, is_pattern
from penstock.control.errors import UserError
from penstock.model.jobs import Change
from penstock.store.json import as_json
from penstock.store.rows import columns
from services.job_service.flows import Flow, Flows, Unsaid, fields_of, flow_of, is_path, stored_at, unsaid_of

# Two jobs that are written at once may close a loop together. Any constant will do.
_LOCK = text("SELECT pg_advisory_xact_lock(7311938841)")
_COLUMNS = columns(Flow)
_READ = text(f"SELECT {_COLUMNS} FROM flows WHERE job = ANY(:jobs)")
_WRITERS = text(
    f"""
    SELECT {_COLUMNS} FROM flows
    WHERE ((writes = ANY(:topics) OR folder = ANY(:topics)) AND NOT may_loop)
        OR side_topics && CAST(:topics AS text[]) OR side_stores && CAST(:topics AS text[])
    """
)
_SHARE = text(
    f"""
    SELECT {_COLUMNS} FROM flows
    WHERE dead_letters = ANY(:outputs) OR writes = ANY(:dead_letters) OR folder = ANY(:folders)
        OR side_topics && CAST(:dead_letters AS text[]) OR side_stores && CAST(:folders AS text[])
    """
)
# Of a topic with thousands of readers only some are read, and of those the first by name returned.
MOST_READ = 2_000
# Of a topic with thousands of writers only some are compared.
_MOST_COMPARED = 100
_NEIGHBOURS = f"""
    SELECT {_COLUMNS} FROM (
        SELECT {_COLUMNS} FROM flows
        WHERE {{meets}} AND dead_letters IS NOT NULL AND job <> ALL(:seen)
        LIMIT {MOST_READ}) AS near
    ORDER BY job LIMIT :limit
"""
_BEGINS = "^@ ANY (CAST(:beginnings AS text[]))"
_WRITTEN = f"""
    SELECT writes AS topic FROM flows WHERE writes {_BEGINS}
    UNION SELECT topic FROM flows, unnest(side_topics) AS topic WHERE side_topics <> '{{}}' AND topic {_BEGINS}
    """
_FILLED = text(f"{_WRITTEN} UNION SELECT dead_letters FROM flows WHERE dead_letters {_BEGINS}")
_WRITTEN_TO = text(_WRITTEN)
# Few jobs have one. Their names begin as those of `penstock.config.topic_patterns.pattern_name`.
PATTERNS = text(
    """
    SELECT job, name FROM flows, unnest(reads) AS name
    WHERE (CASE WHEN '~' COLLATE "C" <= ANY (reads) THEN 1 END) = 1
        AND starts_with(name, '~') AND position('/' in name) = 0
    """
)
READERS = text(_NEIGHBOURS.format(meets="reads && CAST(:topics AS text[])"))
FILLERS = text(
    _NEIGHBOURS.format(
        meets="""(writes = ANY(:topics) OR dead_letters = ANY(:topics) OR folder = ANY(:topics)
            OR side_topics && CAST(:topics AS text[]) OR side_stores && CAST(:topics AS text[]))"""
    )
)
_OUTPUTS = text(
    """
    SELECT job, jsonb_build_object('type', config->'output'->'type', 'path', config->'output'->'path',
        'connection', config->'output'->'connection', 'table', config->'output'->'table') AS output
    FROM expected_configs WHERE job = ANY(:jobs)
    """
)
# A place that many writers have is planned as any other: by the index, whose rows are few elsewhere.
_WRITERS_AT = text(
    f"""
    SELECT job FROM unnest(CAST(:places AS text[])) AS place,
        LATERAL (SELECT job FROM flows WHERE writes = place LIMIT {_MOST_COMPARED}) AS at_place
    UNION SELECT job FROM flows WHERE folder = ANY(:places)
    UNION (SELECT job FROM flows WHERE side_topics && CAST(:places AS text[]) LIMIT {MOST_READ})
    UNION (SELECT job FROM flows WHERE side_stores && CAST(:places AS text[]) LIMIT {MOST_READ})
    """
)
# A flow has no folder or table that its job shares.
SHARERS = text(
    """
    SELECT job, jsonb_build_object('type', config->'output'->'type', 'path', config->'output'->'path',
        'connection', config->'output'->'connection', 'table', config->'output'->'table') AS output
    FROM flows JOIN expected_configs USING (job)
    WHERE (CASE WHEN writes IS NULL AND folder IS NULL THEN 1 END) = 1
        AND config->'output'->'allow_other_writers' = to_jsonb(true)
    """
)
_LIVING = text(
    """
    SELECT job, CASE WHEN job <> ALL(:known) THEN config END AS config, created_at
    FROM expected_configs JOIN jobs ON name = job
    WHERE job = ANY(:jobs) AND NOT deleting AND (
        config->>'desired_state' IS DISTINCT FROM 'stopped'
        OR EXISTS (SELECT FROM running WHERE running.job = expected_configs.job AND started)
        OR EXISTS (SELECT FROM restores WHERE restores.job = expected_configs.job))
    """
)
_HAS_UNNOTED = text("SELECT EXISTS (SELECT FROM flows WHERE dead_letters IS NULL)")
_PATHS = text(
    """
    SELECT job, jsonb_build_object('streams', config->'streams', 'tables', config->'tables', 'args', config->'args')
        AS config
    FROM expected_configs WHERE job = ANY(:jobs)
    """
)
# Only what a flow follows from.
_UNNOTED = """
    SELECT job, jsonb_build_object('inputs', config->'inputs', 'output', config->'output',
        'side_outputs', config->'side_outputs', 'dead_letter_topic', config->'dead_letter_topic',
        'streams', config->'streams', 'tables', config->'tables', 'args', config->'args') AS config
    FROM flows JOIN expected_configs USING (job) WHERE dead_letters IS NULL
"""
_ALL_UNNOTED = text(_UNNOTED)
_SOME_UNNOTED = text(f"{_UNNOTED} LIMIT :most FOR UPDATE OF flows SKIP LOCKED")
# The releases with migration 0015 noted these without their table.
_UNNOTE_TABLES = text(
    """
    UPDATE flows SET dead_letters = NULL WHERE job IN (
        SELECT job FROM flows JOIN expected_configs USING (job)
        WHERE folder IS NULL AND dead_letters IS NOT NULL AND config->'output'->>'type' = 'postgres'
            AND config->'output'->'allow_other_writers' IS DISTINCT FROM to_jsonb(true)
        FOR UPDATE OF flows SKIP LOCKED)
    """
)
_WRITE = text(
    f"""
    INSERT INTO flows ({_COLUMNS})
    SELECT {_COLUMNS} FROM jsonb_to_recordset(CAST(:rows AS jsonb)) AS new(
        job text, reads text[], writes text, folder text, may_loop boolean, dead_letters text,
        side_topics text[], side_loops text[], side_stores text[], side_folders text[])
    ON CONFLICT (job) DO UPDATE SET reads = excluded.reads, writes = excluded.writes, folder = excluded.folder,
        may_loop = excluded.may_loop, dead_letters = excluded.dead_letters, side_topics = excluded.side_topics,
        side_loops = excluded.side_loops, side_stores = excluded.side_stores, side_folders = excluded.side_folders
    """
)


def lock(connection: Connection) -> None:
    """Until the transaction ends no other one changes a flow."""
    connection.execute(_LOCK)


def moved(changes: Mapping[int, Change], stored: Mapping[str, Flow]) -> dict[int, Flow]:
    """The flows of those changes, given by position, that are not `stored`. It is rare that a write changes one."""
    wanted = {at: flow_of(change.job, change.merged) for at, change in changes.items() if change.merged is not None}
    return {at: flow for at, flow in wanted.items() if stored.get(flow.job) != flow}


def refused(connection: Connection, changes: Mapping[int, Change], moved: Mapping[int, Flow]) -> dict[int, UserError]:
    """Why some of the flows that are `moved` of changes, given by position, must not be. Each is judged after those
    before it that may be. Changes nothing."""
    changed = {position: flow for position, flow in moved.items() if position in changes}
    if not changed:
        return {}
    configs = {position: changes[position].merged or {} for position in changed}
    unsaid = {position: unsaid_of(config) for position, config in configs.items()}
    sharing = {flow.job for position, flow in changed.items() if unsaid[position].shared is not None}
    flows = _around(connection, list(changed.values()), sharing)
    found: dict[int, UserError] = {}
    for position, flow in changed.items():
        try:
            flows.take(flow, fields_of(configs[position]), unsaid[position])
        except UserError as error:
            found[position] = error
    return found


def keep(connection: Connection, flows: Collection[Flow]) -> None:
    """Stores flows of jobs that are locked. The transaction has the lock of flows (`lock`)."""
    _write(connection, list(flows))


def check(connection: Connection, job: str, config: Mapping[str, Any]) -> None:
    """Raises InvalidConfig when a write of this configuration would be refused now. Changes nothing."""
    flow, unsaid = flow_of(job, config), unsaid_of(config)
    sharing = () if unsaid.shared is None else (job,)
    _around(connection, [flow], sharing).take(flow, fields_of(config), unsaid)


def note(connection: Connection, most: int) -> int:
    """Stores whole flows of up to `most` jobs of which an earlier release, or a change of the output, left none; how
    many. Waits for no row: one that somebody has locked is left for the next call."""
    if not connection.execute(_HAS_UNNOTED).scalar_one():
        return 0
    lock(connection)
    found = [flow_of(*row) for row in connection.execute(_SOME_UNNOTED, {"most": most})]
    _write(connection, found)
    return len(found)


def unnote_tables(connection: Connection) -> None:
    """Lets `note` store the flows anew in which an earlier release left out the Postgres table. Waits for no row."""
    lock(connection)
    connection.execute(_UNNOTE_TABLES)


def read(connection: Connection, job: str) -> Flow:
    """The flow of a job that exists; its dead letters and folder are known, whatever wrote the row."""
    unnoted = {flow.job: flow for flow in _unnoted(connection)}
    return unnoted.get(job) or _read(connection, [job]).get(job, Flow(job, ()))


def readers(connection: Connection, topics: Collection[str], seen: Collection[str], limit: int) -> list[Flow]:
    """At most `limit` jobs by name that read one of the topics or folders, but for those seen."""
    names = {*topics, *(name for name in patterns(connection) if any(covers(name, topic) for topic in topics))}
    return _neighbours(connection, READERS, names, seen, limit, lambda flow: flow.reads)


def patterns(connection: Connection) -> set[str]:
    """The patterns of topics that jobs read."""
    return {row.name for row in connection.execute(PATTERNS)}


def readers_by_pattern(connection: Connection, topic: str) -> list[str]:
    """The jobs that read a topic by a pattern."""
    return [row.job for row in connection.execute(PATTERNS) if covers(row.name, topic)]


def written(connection: Connection, names: Collection[str]) -> set[str]:
    """The topics of these names, and of the topics that jobs write those that these patterns match."""
    return _expanded(connection, names, _WRITTEN_TO)


def _expanded(connection: Connection, names: Collection[str], statement: TextClause) -> set[str]:
    given = list(filter(is_pattern, names))
    values = {"beginnings": list({beginning(name) for name in given})}
    topics = connection.execute(statement, values).scalars() if given else ()
    return {*names, *(topic for topic in topics if any(covers(name, topic) for name in given))}


def fillers(connection: Connection, topics: Collection[str], seen: Collection[str], limit: int) -> list[Flow]:
    """At most `limit` jobs by name with rows or malformed records in one of the topics or folders, but for those
    seen."""
    names = _expanded(connection, topics, _FILLED)
    return _neighbours(
        connection,
        FILLERS,
        names,
        seen,
        limit,
        lambda flow: (*flow.topics, *flow.side_stores, flow.dead_letters, flow.folder),
    )


class Writer(NamedTuple):
    """A job that is not to be deleted and has rows somewhere, or is to have them: what is expected of it, None where
    the caller knows."""

    config: Mapping[str, Any] | None
    created_at: datetime


def writers_at(
    connection: Connection, places: Collection[str], *, known: Collection[str], without: Collection[str]
) -> dict[str, Writer]:
    """The jobs with rows in one of the topics or folders. Of the writers of a place not all, where they are many.
    `known`: jobs whose configuration is not read. `without`: jobs that do not count."""
    jobs = set(connection.execute(_WRITERS_AT, {"places": list(places)}).scalars()) if places else set()
    if any(map(is_path, places)):
        jobs |= {job for job, place in _shared(connection) if place in places}
    asked = {"jobs": list(jobs.difference(without)), "known": list(known)}
    found = connection.execute(_LIVING, asked) if asked["jobs"] else ()
    return {row.job: Writer(row.config, row.created_at) for row in found}


def shared_places(connection: Connection) -> set[str]:
    """The folders and tables that jobs write to by their main output, and share."""
    return {place for _, place in _shared(connection)}


def _shared(connection: Connection) -> list[tuple[str, str]]:
    found = [(row.job, stored_at(row.output)) for row in connection.execute(SHARERS)]
    return [(job, place) for job, place in found if place is not None]


def outputs(connection: Connection, jobs: Collection[str]) -> dict[str, dict[str, Any]]:
    """What says where the output of each job goes."""
    return {row.job: row.output for row in connection.execute(_OUTPUTS, {"jobs": list(jobs)})} if jobs else {}


def _neighbours(
    connection: Connection,
    statement: TextClause,
    topics: Collection[str],
    seen: Collection[str],
    limit: int,
    topics_of: Callable[[Flow], Iterable[str | None]],
) -> list[Flow]:
    """Those of the statement, and those that are not stored whole."""
    if not topics:
        return []
    values = {"topics": list(topics), "seen": list(seen), "limit": limit}
    unnoted = (
        flow for flow in _unnoted(connection) if flow.job not in seen and not set(topics).isdisjoint(topics_of(flow))
    )
    found = [*_flows(connection.execute(statement, values)), *unnoted]
    return sorted(found, key=lambda flow: flow.job)[:limit]


def _around(connection: Connection, flows: Sequence[Flow], sharing: Collection[str]) -> Flows:
    """What flows that are to be taken could meet, and those of the same jobs until then. `sharing`: those of the jobs
    that write to a table which their flow does not name (`Unsaid`)."""
    unnoted = {flow.job: flow for flow in _unnoted(connection)}
    stored = _read(connection, [flow.job for flow in flows])
    known = {flow.job: flow for flow in _sharing(connection, flows)} | stored
    seen: set[str] = set()
    topics = _upstream_of((*flows, *stored.values()))
    topics |= {topic for flow in flows if flow.job in sharing for topic in flow.reads}
    while topics:
        seen |= topics
        writers = _flows(connection.execute(_WRITERS, {"topics": list(written(connection, topics))}))
        known |= {flow.job: flow for flow in writers}
        topics = _upstream_of(writers) - seen
    found = known | unnoted
    return Flows(found.values(), _unsaid(connection, found.values()))


def _unsaid(connection: Connection, flows: Iterable[Flow]) -> dict[str, Unsaid]:
    """What jobs that read folders say of loops, and their flows do not."""
    jobs = [flow.job for flow in flows if any(map(is_path, flow.reads))]
    rows = connection.execute(_PATHS, {"jobs": jobs}) if jobs else ()
    return {row.job: unsaid_of(row.config) for row in rows}


def _unnoted(connection: Connection) -> list[Flow]:
    """The flows that are not stored whole: few, but for the time after an upgrade until `note` has been through."""
    return [flow_of(*row) for row in connection.execute(_ALL_UNNOTED)]


def _sharing(connection: Connection, flows: Sequence[Flow]) -> list[Flow]:
    """Jobs with rows or malformed records in a topic that these have for the other, and owners of their folders."""
    outputs = [topic for flow in flows for topic in flow.topics]
    dead_letters = [flow.dead_letters for flow in flows if flow.dead_letters is not None]
    folders = [folder for flow in flows for folder in flow.folders]
    sought = {"outputs": outputs, "dead_letters": dead_letters, "folders": folders}
    return _flows(connection.execute(_SHARE, sought))


def _upstream_of(flows: Iterable[Flow]) -> set[str]:
    return {topic for flow in flows if flow.passes_on for topic in flow.reads}


def _read(connection: Connection, jobs: Collection[str]) -> dict[str, Flow]:
    rows = connection.execute(_READ, {"jobs": list(jobs)}) if jobs else ()
    return {flow.job: flow for flow in _flows(rows)}


def _write(connection: Connection, flows: Sequence[Flow]) -> None:
    if flows:
        connection.execute(_WRITE, {"rows": as_json([flow._asdict() for flow in flows])})


def _flows(rows: Iterable[Sequence[object]]) -> list[Flow]:
    return list(starmap(of_row, rows))


def of_row(job: str, reads: Sequence[str], *rest: Any) -> Flow:
    """A flow of the values of its columns, in their order."""
    values: list[Any] = [tuple(value) if isinstance(value, list) else value for value in rest]
    return Flow(job, tuple(reads), *values)
