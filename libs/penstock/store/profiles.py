"""The rows of profiles. The Job Service asks for them, the State Syncer has them made, the Auto Scaler reads them.

asked      a host is to run the query for a while; with `container`, one of that container
done       `report` has what was measured
failed     `detail` says why there is nothing
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

ASKED, DONE, FAILED = "asked", "done", "failed"


@dataclass(frozen=True, slots=True)
class ProfileRow:
    """One profile. What is None is not known yet."""

    number: int
    job: str
    state: str
    detail: str
    seconds: int
    revision: int
    config: Mapping[str, Any]
    container: str | None
    attempts: int
    report: Mapping[str, Any] | None
    author: str
    reason: str
    created_at: datetime
    finished_at: datetime | None
