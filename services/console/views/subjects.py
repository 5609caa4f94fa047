"""Where the subject of an alert is shown. Pure."""

from __future__ import annotations

import re

from penstock.config.declare import NAME
from penstock.model.alerts import CONTAINER_ALERTS, AlertKind

_OF_CONTAINERS = frozenset([*CONTAINER_ALERTS, AlertKind.REPORTS_OLD, AlertKind.LEADER_REFUSED])
_OF_THE_CELL = frozenset(
    [
        *(AlertKind.SELECTOR_WITHOUT_SLOT, AlertKind.UNPLACEABLE, AlertKind.ADMIN_TOKEN_ENDING),
        *(AlertKind.SCALING_FROZEN, AlertKind.LOOP_STALLED),
    ]
)


def subject_path(kind: str, subject: str) -> str | None:
    """The page of the job, of the job of the task or layer (`job/...`), or of the container; None: it has no page."""
    if kind in _OF_THE_CELL or kind not in set(AlertKind):
        return None
    name = subject.partition("/")[0]
    if re.fullmatch(NAME, name) is None:
        return None
    return f"/containers/{name}" if kind in _OF_CONTAINERS else f"/jobs/{name}"
