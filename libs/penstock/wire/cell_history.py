"""The history of the cell, as the Job Service answers it."""

from __future__ import annotations

from datetime import datetime

from penstock.wire.jobs import JsonObject, View


class CellHistoryEntry(View):
    """One write to the cell that is no write to a job. `subject`: the token, layer, container, alert or silence;
    `cell`: the cell itself."""

    id: int
    at: datetime
    author: str
    action: str
    subject: str
    reason: str
    old: JsonObject | None
    new: JsonObject | None


class CellHistoryPage(View):
    """Newest first; `next` is the cursor of the next page, null at the end."""

    entries: list[CellHistoryEntry]
    next: str | None = None
