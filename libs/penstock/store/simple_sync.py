"""Simple differences of a round, committed where they lie: configurations do not travel.

`compare` notes, for each job whose written configuration differs from the one that runs, which fields are the same;
`read_samenesses` tells the distinct answers, the caller judges them, and `commit_changed` commits the jobs whose
answers were found simple: at once, or, where tasks that run get another package, with the rollout that begins, or not
yet (`put_off`). `commit_first` commits jobs that never ran. All in one transaction of the State Syncer, after its epoch
was checked.

Jobs are left to the rounds' ordinary way when anything about them is unusual: a state other than `synced` or waiting
for room, a plan, a rollout, a restart or restore that was asked for, a deletion, an output that must be made first, or
no configuration that was merged on the `basis` given.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import orjson
from sqlalchemy import Connection, Row, text

from penstock.config.sameness import CLOSED, OPEN, TOP, Sameness, SimpleChange, opened
from penstock.config.tree import Leaf, find
from penstock.store.records import CommittedAlike
from penstock.tasks.rollout import PACKAGE, QUERY

# The args of a query have free types: there 1, 1.0 and true differ, which jsonb's equality does not see.
_FREELY_TYPED = "args"


def _same(path: Sequence[str]) -> str:
    """Whether both sides have the same at a path; NULL where one has nothing. A plain value is cheaper as text."""
    node = find(tuple(path))
    old, new = ("->".join((side, *(f"'{key}'" for key in path))) for side in ("old", "new"))
    if path[0] == _FREELY_TYPED:
        return f"({old})::text = ({new})::text"
    if not isinstance(node, Leaf):
        return f"{old} = {new}"
    # As text both JSON's null and an absent key are NULL: so they are to a field whose default is null.
    equals = "IS NOT DISTINCT FROM" if node.row.default is None and not node.row.required else "="
    return f"{_as_text(old)} {equals} {_as_text(new)}"


def _as_text(value: str) -> str:
    above, _, key = value.rpartition("->")
    return f"({above}->>{key})"


def _closed_group(name: str) -> str:
    """The leaves of a group; those of one that is the same as a whole are not looked at."""
    leaves = [path for path in CLOSED if path[0] == name]
    all_same = ", ".join("true" for _ in leaves)
    each = ", ".join(_same(path) for path in leaves)
    return f"CASE WHEN top[{TOP.index(name) + 1}] THEN ARRAY[{all_same}] ELSE ARRAY[{each}] END"


_TOP = ", ".join(_same((name,)) for name in TOP)
_CLOSED = " || ".join(_closed_group(name) for name in dict.fromkeys(path[0] for path in CLOSED))
_OPEN_SAME = " AND ".join(f"top[{TOP.index(name) + 1}]" for name in OPEN)
_OPEN_SIDES = ", ".join(f"('{name}', old->'{name}', new->'{name}')" for name in OPEN)
_OPENED = f"""(
    WITH RECURSIVE below (path, was, becomes) AS (
        SELECT ARRAY[field], was, becomes FROM (VALUES {_OPEN_SIDES}) AS side (field, was, becomes)
        UNION ALL
        SELECT below.path || inner_.key, inner_.was, inner_.becomes
        FROM below CROSS JOIN LATERAL (
            SELECT key, a.value AS was, b.value AS becomes
            FROM jsonb_each(CASE WHEN jsonb_typeof(below.was) = 'object' THEN below.was ELSE '{{}}' END) AS a
                FULL JOIN
                jsonb_each(CASE WHEN jsonb_typeof(below.becomes) = 'object' THEN below.becomes ELSE '{{}}' END) AS b
                USING (key)
        ) AS inner_
        WHERE jsonb_typeof(below.was) = 'object' AND jsonb_typeof(below.becomes) = 'object'
            AND (inner_.was IS DISTINCT FROM inner_.becomes
                OR (below.path[1] = '{_FREELY_TYPED}' AND inner_.was::text <> inner_.becomes::text))
    )
    SELECT coalesce(jsonb_agg(jsonb_build_array(path, was IS NOT NULL, becomes IS NOT NULL) ORDER BY path), '[]')
    FROM below
    WHERE cardinality(path) > 1
        AND (jsonb_typeof(was) = 'object' AND jsonb_typeof(becomes) = 'object') IS NOT TRUE)"""


def _is_ready(config: str, started: str) -> str:
    """Whether no output has to be made before tasks start, as `needs_sink` of penstock.tasks says."""
    output = f"{config}->'output'"
    needs = f"""({output}->>'type' IN ('delta', 'postgres')
            OR ({output}->>'type' = 'kafka' AND {output}->>'key_groups' IS NOT NULL))"""
    return f"({started} OR {config}->>'desired_state' <> 'running' OR NOT {needs})"


# Tasks run and go on, with another package.
_IS_UPGRADE = f"""NOT top[{TOP.index(PACKAGE) + 1}] AND started AND old->>'desired_state' = 'running'
            AND new->>'desired_state' = 'running'"""


def _leaf_change(path: tuple[str, ...]) -> str:
    old, new = ("->".join((side, *(f"'{key}'" for key in path))) for side in ("old", "new"))
    change = f"jsonb_build_object('path', jsonb_build_array('{path[0]}', '{path[1]}'), 'old', {old}, 'new', {new})"
    return f"CASE WHEN {_same(path)} THEN '[]' ELSE jsonb_build_array({change}) END"


def _leaves() -> str:
    """The leaves that going back gives their old values again, in the order in which Postgres keeps keys."""
    found = {
        group: " || ".join(
            _leaf_change(path) for path in sorted(CLOSED, key=lambda path: (len(path[1]), path[1])) if path[0] == group
        )
        for group in (QUERY, PACKAGE)
    }
    return " || ".join(
        f"CASE WHEN top[{TOP.index(group) + 1}] THEN '[]' ELSE {changes} END" for group, changes in found.items()
    )


# `|| '{{}}'` gives a copy out of TOAST: without it every field that is looked at would decompress the whole again.
# OFFSET 0 keeps the planner from writing each of these expressions out wherever it is used.
# `task_count` is that of a job whose tasks get another package while they run, else 0. While there is no room (`full`),
# jobs that are known to wait for it are not looked at.
_COMPARE = text(
    f"""
    INSERT INTO simple_changes (job, revision, top, closed, opened, task_count, priority, leaves)
    SELECT job, revision, top, {_CLOSED}, CASE WHEN {_OPEN_SAME} THEN '[]' ELSE {_OPENED} END,
        CASE WHEN upgrade THEN (new->>'task_count')::int ELSE 0 END,
        CASE WHEN upgrade THEN (new->>'priority')::int END,
        CASE WHEN upgrade THEN {_leaves()} END
    FROM (
        SELECT job, revision, old, new, top, coalesce({_IS_UPGRADE}, false) AS upgrade
        FROM (
            SELECT job, revision, started, old, new, ARRAY[{_TOP}] AS top
            FROM (
                SELECT j.name AS job, j.revision, r.started, r.config || '{{}}' AS old, e.config || '{{}}' AS new
                FROM jobs j
                    JOIN running r ON r.job = j.name
                    JOIN sync_state s ON s.job = j.name
                    JOIN expected_configs e ON e.job = j.name
                WHERE r.revision < j.revision AND r.restarts = j.restarts AND NOT r.stopping AND NOT j.deleting
                    AND (s.state = 'synced' OR (s.state = 'queued' AND NOT (:full AND s.revision >= j.revision)))
                    AND s.failures = 0 AND s.plan IS NULL AND r.rollout IS NULL
                    AND e.revision = j.revision AND e.basis = :basis AND {_is_ready("e.config", "r.started")}
                    AND NOT EXISTS (SELECT FROM restores w WHERE w.job = j.name)
                OFFSET 0
            ) AS sides
            OFFSET 0
        ) AS compared
        OFFSET 0
    ) AS told
    """
)
# The lists of 100,000 jobs that these statements hand on take some 10 MB each.
_MEMORY = text("SET LOCAL work_mem = '64MB'")
_TABLE = text(
    """
    CREATE TEMPORARY TABLE simple_changes (
        job text, revision bigint, top boolean[], closed boolean[], opened jsonb, task_count int, priority int,
        leaves jsonb
    ) ON COMMIT DROP
    """
)
_ANSWERS = text(
    """
    SELECT top, closed, opened, task_count, count(*) AS jobs FROM simple_changes
    GROUP BY top, closed, opened, task_count ORDER BY top, closed, opened, task_count
    """
)

_JUDGED = """json_to_recordset(CAST(:judged AS json)) AS judged (
        number int, top boolean[], closed boolean[], opened jsonb, task_count int, kind text, fields text[],
        rollout jsonb, detail text)"""
_ANSWER = """judged.top = change.top AND judged.closed = change.closed AND judged.opened = change.opened
            AND judged.task_count = change.task_count"""
_TURN = """(-change.priority, change.revision, change.job COLLATE "C")"""
# The first that there is no room for.
_FIRST_LATE = text(
    f"""
    SELECT change.priority, change.revision, change.job FROM simple_changes AS change JOIN {_JUDGED} ON {_ANSWER}
    WHERE judged.rollout IS NOT NULL ORDER BY {_TURN} OFFSET :room LIMIT 1
    """
)
_LATE = f"""judged.rollout IS NOT NULL AND {_TURN}
            >= (-CAST(:late_priority AS int), CAST(:late_revision AS bigint), CAST(:late_job AS text))"""
_COMMIT = text(
    f"""
    WITH judged AS MATERIALIZED (
        SELECT change.job, change.revision, judged.number, judged.kind, judged.rollout IS NOT NULL AS rolls,
            change.task_count, change.leaves
        FROM simple_changes AS change JOIN {_JUDGED} ON {_ANSWER}
        WHERE ({_LATE}) IS NOT TRUE
    ), committed AS (
        UPDATE running AS held SET
            config = e.config, revision = e.revision, commit_number = :commit_number, leader_epoch = :leader_epoch,
            started = held.started OR e.config->>'desired_state' = 'running', committed_at = now(),
            rollout = CASE WHEN judged.task_count > 1 THEN jsonb_build_object(
                'revision', e.revision, 'upgraded', 1, 'before', jsonb_build_object(
                    'config', held.config, 'revision', held.revision, 'restarts', held.restarts)) END
        FROM judged JOIN expected_configs e ON e.job = judged.job AND e.revision = judged.revision
        WHERE held.job = judged.job AND held.revision < judged.revision
        RETURNING held.job, held.revision, held.restarts, judged.number, judged.leaves,
            CASE WHEN judged.rolls THEN 'rollout' ELSE judged.kind END AS kind
    ), noted AS (
        UPDATE sync_state AS held SET
            state = CASE WHEN judged.rollout IS NULL THEN 'synced' ELSE 'rolling' END, detail = judged.detail,
            revision = committed.revision, change_kind = judged.kind, changed_fields = judged.fields,
            plan = CASE WHEN judged.rollout IS NOT NULL THEN judged.rollout || jsonb_build_object(
                'revision', committed.revision, 'restarts', committed.restarts, 'leaves', committed.leaves) END,
            step = CASE WHEN judged.rollout IS NOT NULL THEN 0 END, updated_at = now()
        FROM committed JOIN {_JUDGED} ON judged.number = committed.number
        WHERE held.job = committed.job AND held.state IN ('synced', 'waiting', 'queued') AND held.failures = 0
    )
    SELECT kind, count(*) AS jobs, max(revision) AS revision,
        (array_agg(job))[1 : :sample] AS names, (array_agg(revision))[1 : :sample] AS revisions
    FROM committed GROUP BY kind ORDER BY kind
    """
)
_PUT_OFF = text(
    f"""
    UPDATE sync_state AS held SET
        state = 'queued', detail = :detail, revision = change.revision, change_kind = judged.kind,
        changed_fields = judged.fields, updated_at = now()
    FROM simple_changes AS change JOIN {_JUDGED} ON {_ANSWER}
    WHERE held.job = change.job AND held.state IN ('synced', 'waiting', 'queued') AND held.failures = 0 AND {_LATE}
        AND (held.state, held.detail, held.revision, held.change_kind, held.changed_fields)
            <> ('queued', :detail, change.revision, judged.kind, judged.fields)
    """
)
_COMMIT_FIRST = text(
    f"""
    WITH fresh AS MATERIALIZED (
        SELECT j.name AS job, j.revision, j.restarts, coalesce(f.generation, 0) AS last_generation
        FROM jobs j LEFT JOIN forgotten f ON f.job = j.name
        WHERE NOT j.deleting
            AND NOT EXISTS (SELECT FROM running r WHERE r.job = j.name)
            AND NOT EXISTS (SELECT FROM sync_state s WHERE s.job = j.name)
            AND NOT EXISTS (SELECT FROM restores w WHERE w.job = j.name)
    ), committed AS (
        INSERT INTO running
            (job, config, revision, generation, restarts, stopping, started, commit_number, leader_epoch)
        SELECT fresh.job, e.config, fresh.revision, fresh.last_generation + 1, fresh.restarts, false,
            e.config->>'desired_state' = 'running', :commit_number, :leader_epoch
        FROM fresh JOIN expected_configs e ON e.job = fresh.job AND e.revision = fresh.revision AND e.basis = :basis
        WHERE {_is_ready("e.config", "false")}
        ON CONFLICT (job) DO NOTHING
        RETURNING job, revision
    ), noted AS (
        INSERT INTO sync_state (job, state, revision) SELECT job, 'synced', revision FROM committed
        ON CONFLICT (job) DO NOTHING
    ), remembered AS (
        DELETE FROM forgotten USING committed WHERE forgotten.job = committed.job
    )
    SELECT 'first' AS kind, count(*) AS jobs, max(revision) AS revision,
        (array_agg(job))[1 : :sample] AS names, (array_agg(revision))[1 : :sample] AS revisions
    FROM committed HAVING count(*) > 0
    """
)


class Answer(NamedTuple):
    """How jobs differ. `task_count`: of jobs whose tasks get another package while they run, else 0. `jobs`: so many
    differ so."""

    sameness: Sameness
    task_count: int
    jobs: int


class Judged(NamedTuple):
    """What an answer comes to. `rollout`: the record to begin with as JSON, but for `revision`, `restarts` and
    `leaves`, where tasks get another package."""

    change: SimpleChange
    rollout: dict[str, Any] | None = None
    detail: str = ""


class Late(NamedTuple):
    """The first job that there is no room for: it waits, and with it all that come later."""

    priority: int | None = None
    revision: int | None = None
    job: str | None = None


def compare(connection: Connection, basis: str, *, full: bool = False) -> None:
    """Notes of every usual job with a newer configuration what is the same; kept until the transaction ends.

    `full`: no more rollouts may begin, so those that are known to wait for that are left out.
    """
    connection.execute(_MEMORY)
    connection.execute(_TABLE)
    connection.execute(_COMPARE, {"basis": basis, "full": full})


def read_answers(connection: Connection) -> list[Answer]:
    """The distinct answers of `compare`."""
    return [
        Answer(Sameness(tuple(row.top), tuple(row.closed), opened(row.opened)), row.task_count, row.jobs)
        for row in connection.execute(_ANSWERS)
    ]


def first_late(connection: Connection, judged: Mapping[Answer, Judged], room: int) -> Late:
    """The first rollout that there is no room for: by priority, then the oldest write, then by name."""
    found = connection.execute(_FIRST_LATE, {"judged": _as_rows(judged), "room": room}).one_or_none()
    return Late() if found is None else Late(*found)


def commit_changed(
    connection: Connection,
    judged: Mapping[Answer, Judged],
    *,
    commit_number: int,
    leader_epoch: int,
    sample: int,
    late: Late | None = None,
) -> list[CommittedAlike]:
    """Commits the jobs that were found to differ as one of `judged`, and their sync states; by kind, with a sample.
    Rollouts from `late` on are not begun.

    A job that was written to since `compare` is left to the next round.
    """
    numbers = {"commit_number": commit_number, "leader_epoch": leader_epoch, "sample": sample}
    found = connection.execute(_COMMIT, {"judged": _as_rows(judged), **_as_turn(late or Late()), **numbers})
    return _committed(found.all())


def put_off(connection: Connection, judged: Mapping[Answer, Judged], late: Late, detail: str) -> None:
    """Notes of the jobs from `late` on that they wait, and for what."""
    connection.execute(_PUT_OFF, {"judged": _as_rows(judged), "detail": detail, **_as_turn(late)})


def commit_first(
    connection: Connection, basis: str, *, commit_number: int, leader_epoch: int, sample: int
) -> list[CommittedAlike]:
    """Commits the jobs that never ran and were never looked at, in generations above those of forgotten ones."""
    numbers = {"commit_number": commit_number, "leader_epoch": leader_epoch, "sample": sample}
    return _committed(connection.execute(_COMMIT_FIRST, {"basis": basis, **numbers}).all())


def _as_turn(late: Late) -> dict[str, object]:
    return {f"late_{name}": value for name, value in late._asdict().items()}


def _as_rows(judged: Mapping[Answer, Judged]) -> str:
    return orjson.dumps([_as_row(number, *each) for number, each in enumerate(judged.items())]).decode()


def _as_row(number: int, answer: Answer, judged: Judged) -> dict[str, object]:
    sameness = answer.sameness
    return {
        "number": number,
        "top": sameness.top,
        "closed": sameness.closed,
        "opened": [tuple(change) for change in sameness.opened],
        "task_count": answer.task_count,
        "kind": judged.change.kind.name.lower(),
        "fields": judged.change.fields,
        "rollout": judged.rollout,
        "detail": judged.detail,
    }


def _committed(rows: Sequence[Row[Any]]) -> list[CommittedAlike]:
    return [
        CommittedAlike(row.kind, row.jobs, row.revision, tuple(zip(row.names, row.revisions, strict=True)))
        for row in rows
    ]
