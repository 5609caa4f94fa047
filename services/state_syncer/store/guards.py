"""What must not have changed between the decision about a job and its write: compared under locks, in the transaction
that writes.

A job that gets its first tasks may change all its fields until then, and afterwards not. So its newest write must be
the one that was decided about, and no other one may be under way. The same holds for a restore: until the old
generation is given up it may be cancelled, and afterwards not. A row that a write of the Job Service has locked counts
as changed, so nobody waits here; the next round decides again.
"""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import Connection, TextClause, text

from penstock.store.json import as_json

_GIVEN = "json_to_recordset(CAST(:rows AS json)) AS given(job text, number bigint)"
_UNWRITTEN = text(
    f"""
    SELECT j.name FROM jobs j JOIN {_GIVEN} ON given.job = j.name AND given.number = j.revision
    FOR KEY SHARE OF j SKIP LOCKED
    """
)
_ASKED = text(
    f"""
    SELECT w.job FROM restores w JOIN {_GIVEN} ON given.job = w.job AND given.number = w.number
    FOR KEY SHARE OF w SKIP LOCKED
    """
)


def changed_since(connection: Connection, starts: Mapping[str, int], seals: Mapping[str, int]) -> frozenset[str]:
    """The jobs of `starts` whose newest write is not of this revision, or may not be, and those of `seals` whose
    restore is not the one of this number. The others stay as they are until the transaction ends."""
    return _others(connection, _UNWRITTEN, starts) | _others(connection, _ASKED, seals)


def _others(connection: Connection, statement: TextClause, given: Mapping[str, int]) -> frozenset[str]:
    if not given:
        return frozenset()
    rows = [{"job": job, "number": number} for job, number in given.items()]
    return frozenset(given) - frozenset(connection.execute(statement, {"rows": as_json(rows)}).scalars())
