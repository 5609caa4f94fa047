"""The history of a cell: what people and loops did to it that is no write to a job. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

CELL = "cell"
"""The subject of entries about the cell as a whole."""


class CellAction(StrEnum):
    """What an entry did. The table `cell_history` has the same list."""

    TOKEN_CREATED = "token_created"
    TOKEN_ROTATED = "token_rotated"
    TOKEN_REVOKED = "token_revoked"
    ADMIN_RECOVERED = "admin_recovered"
    SHARD_COUNT_ASKED = "shard_count_asked"
    LAYER_ADDED = "layer_added"
    LAYER_CHANGED = "layer_changed"
    LAYER_DROPPED = "layer_dropped"
    CONTAINER_CORDONED = "container_cordoned"
    CONTAINER_DRAINED = "container_drained"
    CONTAINER_UNCORDONED = "container_uncordoned"
    CONTAINER_FORGOTTEN = "container_forgotten"
    ALERT_ACKNOWLEDGED = "alert_acknowledged"
    ACKNOWLEDGEMENT_ENDED = "acknowledgement_ended"
    SILENCE_CREATED = "silence_created"
    SILENCE_ENDED = "silence_ended"
    SECRET_GIVEN = "secret_given"
    SECRET_TAKEN = "secret_taken"
    TASK_MOVED = "task_moved"


@dataclass(frozen=True, slots=True)
class CellEntry:
    """One write: who, what, why. `old` and `new`: what was before and is after it, where that is known."""

    author: str
    action: CellAction
    subject: str
    reason: str = ""
    old: Mapping[str, Any] | None = None
    new: Mapping[str, Any] | None = None
