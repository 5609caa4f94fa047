"""The append-only history of the cell. An entry is written in the transaction of what it records."""

from __future__ import annotations

from sqlalchemy import Connection, text

from penstock.control.texts import clean
from penstock.model.cell import CellEntry
from penstock.store.json import as_json

_RECORD = text(
    """
    INSERT INTO cell_history (author, action, subject, reason, old, new)
    VALUES (:author, :action, :subject, :reason, CAST(:old AS jsonb), CAST(:new AS jsonb))
    """
)


def record(connection: Connection, entry: CellEntry) -> None:
    """Adds an entry."""
    old, new = (None if side is None else as_json(dict(side)) for side in (entry.old, entry.new))
    texts = {"author": clean(entry.author), "subject": clean(entry.subject), "reason": clean(entry.reason)}
    connection.execute(_RECORD, {"action": entry.action.value, "old": old, "new": new, **texts})
