"""The rows of savepoints. The Job Service asks for them and for their end; the State Syncer has that done.

asked      to be taken; with `container`, by that one
ready      it is there and was verified
failed     it is not there, `detail` says why
deleting   its files go, then this row does
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

ASKED, READY, FAILED, DELETING = "asked", "ready", "failed", "deleting"


@dataclass(frozen=True, slots=True)
class SavepointRow:
    """One savepoint. What is None was not known yet; `tasks` are `SavedTask` as JSON. `checkpoint`: that of another
    application, which it is made of; None for the job's own."""

    number: int
    job: str
    name: str
    state: str
    detail: str
    generation: int | None
    revision: int | None
    config: Mapping[str, Any] | None
    container: str | None
    attempts: int
    tasks: Sequence[Mapping[str, Any]] | None
    bytes: int | None
    author: str
    reason: str
    created_at: datetime
    finished_at: datetime | None
    checkpoint: str | None = None
