"""The append-only history: who wrote what, when and why."""

from __future__ import annotations

from sqlalchemy import Connection, text

from penstock.store.rows import columns, read_first, read_page
from penstock.wire.jobs import HistoryEntry

_OF_LAYER = f"SELECT {columns(HistoryEntry)} FROM history WHERE job = :job AND layer = :layer"
_AT_VERSION = text(f"{_OF_LAYER} AND version = :version")
_AS_OF = text(f"{_OF_LAYER} AND revision <= :revision ORDER BY version DESC LIMIT 1")
_IS_KNOWN = text("SELECT EXISTS (SELECT FROM history WHERE job = :job)")


def page(
    connection: Connection, job: str, *, limit: int, before_id: int | None = None, layer: str | None = None
) -> list[HistoryEntry]:
    """At most `limit` rows of a job, newest first, from below `before_id`; of one layer when it is given."""
    return read_page(
        connection, HistoryEntry, "history", {"job": job, "layer": layer}, key="id", limit=limit, below=before_id
    )


def is_known(connection: Connection, job: str) -> bool:
    """Whether a job of this name ever existed."""
    return bool(connection.execute(_IS_KNOWN, {"job": job}).scalar_one())


def at_version(connection: Connection, job: str, layer: str, version: int) -> HistoryEntry | None:
    """The write that gave the layer this version; None when there was none."""
    return read_first(connection, HistoryEntry, _AT_VERSION, {"job": job, "layer": layer, "version": version})


def as_of(connection: Connection, job: str, layer: str, revision: int) -> HistoryEntry | None:
    """The layer's newest write that is no newer than `revision`; None when there was none."""
    return read_first(connection, HistoryEntry, _AS_OF, {"job": job, "layer": layer, "revision": revision})
