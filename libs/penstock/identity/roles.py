"""Who calls: the roles of a cell's processes, and how a caller is written in a certificate. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from penstock.config.names import NAME

SCHEME = "penstock://"
WARN_BELOW_DAYS = 14.0
"""A certificate that ends sooner is told: in the log of its process, and by `penstock status`."""
ROTATE = "penstock certificates rotate"
"""Issues all certificates of an identity folder again."""
_NAME = re.compile(NAME)


def end_in_words(days_left: float) -> str:
    """`has expired`, `ends in 3.0 days`: of a certificate."""
    return "has expired" if days_left < 0 else f"ends in {days_left:,.1f} days"


class Role(StrEnum):
    """What a process does in its cell. `observer` reads metrics and what runs, such as Prometheus; it orders nothing.

    To add a role: a row here, and its calls in `rules.py`.
    """

    JOB_SERVICE = "job_service"
    STATE_SYNCER = "state_syncer"
    TASK_SERVICE = "task_service"
    SHARD_MANAGER = "shard_manager"
    AUTO_SCALER = "auto_scaler"
    TASK_MANAGER = "task_manager"
    CONSOLE = "console"
    OBSERVER = "observer"


@dataclass(frozen=True, slots=True)
class Caller:
    """A process of the cell. Only a Task Manager has a container. Raises ValueError."""

    role: Role
    container: str | None = None

    def __post_init__(self) -> None:
        if (self.role is Role.TASK_MANAGER) != (self.container is not None):
            raise ValueError("a task_manager has the name of its container, and no other role has one")
        if self.container is not None and not _NAME.fullmatch(self.container):
            raise ValueError(f"{self.container!r} is not the name of a container")

    def __str__(self) -> str:
        return self.role if self.container is None else f"{self.role}/{self.container}"

    @property
    def file_name(self) -> str:
        """The stem of its files in an identity folder. Names of roles have no dot."""
        return self.role if self.container is None else f"{self.role}.{self.container}"


def caller_of(text: str) -> Caller:
    """What `str(caller)` says. Raises ValueError."""
    role, slash, container = text.partition("/")
    return Caller(Role(role), container if slash else None)


def uri_of(cell: str, caller: Caller) -> str:
    """The name of a caller in its certificate."""
    return f"{SCHEME}{cell}/{caller}"


def caller_in(uris: list[str], cell: str) -> Caller | None:
    """The caller that a certificate of the cell names; None when it names none, several, or one of another cell."""
    begin = f"{SCHEME}{cell}/"
    named = [uri.removeprefix(begin) for uri in uris if uri.startswith(begin)]
    if len(named) != 1:
        return None
    try:
        return caller_of(named[0])
    except ValueError:
        return None
