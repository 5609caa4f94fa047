"""The histories of jobs and of the cell: who wrote what, when and why. No row is ever changed; old ones of jobs move to
an archive when a setting says so (`housekeeping`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, NamedTuple

import orjson
from sqlalchemy import Connection, text

from penstock.store.json import as_json
from penstock.store.rows import columns, page_query, read_first, read_page, stream_rows
from penstock.wire.cell_history import CellHistoryEntry
from penstock.wire.jobs import HistoryEntry

PAGE_BYTES = 4 * 2**20
_MOST_WRITES = 500
_OF_LAYER = f"SELECT {columns(HistoryEntry)} FROM history WHERE job = :job AND layer = :layer"
# A patch keeps the end that an earlier write gave the layer: the time counts from that write.
_AT_VERSIONS = text(
    """
    SELECT asked.position, history.new, history.expires_at, CASE WHEN history.expires_at IS NOT NULL THEN (
        SELECT min(same.at) FROM history AS same WHERE same.job = history.job AND same.layer = history.layer
            AND same.expires_at = history.expires_at) END AS set_at
    FROM jsonb_to_recordset(CAST(:asked AS jsonb)) AS asked (position integer, job text, layer text, version bigint)
    JOIN history ON history.job = asked.job AND history.layer = asked.layer AND history.version = asked.version
    """
)
_AS_OF = text(f"{_OF_LAYER} AND revision <= :revision ORDER BY version DESC LIMIT 1")
_IS_KNOWN = text("SELECT EXISTS (SELECT FROM history WHERE job = :job)")


class Entries(NamedTuple):
    """Rows, newest first. `is_full`: others may follow."""

    rows: list[HistoryEntry]
    is_full: bool


class Version(NamedTuple):
    """A layer as a write left it. `new`: None when it was dropped. `expires_at`: when it was to end, None: never;
    `set_at`: when that was written first."""

    new: Mapping[str, Any] | None
    expires_at: datetime | None
    set_at: datetime | None


def page(
    connection: Connection, job: str | None, *, limit: int, before_id: int | None = None, layer: str | None = None
) -> Entries:
    """At most `limit` rows of a job (None: of all jobs) from below `before_id`; of one layer when it is given. Fewer
    when they are large: a page has `PAGE_BYTES` and one row more at most."""
    query, values = page_query(
        HistoryEntry, "history", {"job": job, "layer": layer}, key="id", limit=limit, below=before_id
    )
    return bounded(stream_rows(connection, HistoryEntry, query, values), limit)


def writes(connection: Connection, job: str, layer: str) -> Iterator[HistoryEntry]:
    """The writes of a layer, newest first, at most `_MOST_WRITES`, read as they are asked for."""
    query, values = page_query(
        HistoryEntry, "history", {"job": job, "layer": layer}, key="version", limit=_MOST_WRITES, below=None
    )
    return stream_rows(connection, HistoryEntry, query, values)


def bounded(rows: Iterable[HistoryEntry], limit: int) -> Entries:
    """The first of these rows. Pure."""
    found, size = list[HistoryEntry](), 0
    for row in rows:
        found.append(row)
        size += len(orjson.dumps((row.old, row.new)))
        if size >= PAGE_BYTES:
            return Entries(found, is_full=True)
    return Entries(found, is_full=len(found) == limit)


def is_known(connection: Connection, job: str) -> bool:
    """Whether a job of this name ever existed."""
    return bool(connection.execute(_IS_KNOWN, {"job": job}).scalar_one())


def at_versions(connection: Connection, asked: Mapping[int, tuple[str, str, int]]) -> dict[int, Version]:
    """Layers by position, asked for by job, layer and version. What there never was, or is forgotten, is left out."""
    if not asked:
        return {}
    rows = [
        {"position": position, "job": job, "layer": layer, "version": version}
        for position, (job, layer, version) in asked.items()
    ]
    found = connection.execute(_AT_VERSIONS, {"asked": as_json(rows)})
    return {row.position: Version(row.new, row.expires_at, row.set_at) for row in found}


def as_of(connection: Connection, job: str, layer: str, revision: int) -> HistoryEntry | None:
    """The layer's newest write that is no newer than `revision`; None when there was none."""
    return read_first(connection, HistoryEntry, _AS_OF, {"job": job, "layer": layer, "revision": revision})


def cell_page(
    connection: Connection,
    *,
    limit: int,
    before_id: int | None = None,
    action: str | None = None,
    subject: str | None = None,
) -> list[CellHistoryEntry]:
    """At most `limit` entries of the cell's history, newest first, from below `before_id`."""
    where = {"action": action, "subject": subject}
    return read_page(connection, CellHistoryEntry, "cell_history", where, key="id", limit=limit, below=before_id)
