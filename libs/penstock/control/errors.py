"""Every error Penstock raises on purpose.

PenstockError
├── UserError                     the caller's fault: carries `field` and `rule`; nothing was changed
│   ├── InvalidConfig             422  a configuration, or what it merges to, breaks a rule
│   ├── Unauthenticated           401  no token, or one that is unknown or revoked
│   ├── Forbidden                 403  the token may not do this
│   ├── NotFound                  404  no such job, layer, version, container
│   ├── VersionConflict           409  the layer has moved on: carries `current_version`
│   ├── Conflict                  409  the call contradicts the present state
│   ├── PreconditionRequired      428  a write without `If-Match`
│   └── TooManyCalls              429  the token calls more often than it may: carries `retry_after_seconds`
├── RetryableError                try again later: the same call may succeed
│   ├── Unavailable               a service or the store cannot be reached: says nothing about what it manages
│   ├── TransactionEnded          the store ended a transaction, and its text says why (a deadlock, a full disk)
│   ├── StatementTimedOut         the store ended a statement at its time limit: says what ran, and the limit
│   └── NotLeader                 this process does not hold the lease of its loop
└── TerminalError                 trying again cannot help
    ├── Fenced                    a newer owner exists: stop at once
    ├── LeaseLost                 the lease that allowed the action has run out
    ├── BrokenTask                a task cannot run as configured (bad query, missing topic)
    └── BrokenCheckpoint          a checkpoint contradicts itself or is of another query

Loops handle retryable and terminal errors; nothing else does (controller-runtime's `TerminalError`).
"""

from __future__ import annotations

from typing import Any


class PenstockError(Exception):
    """Base of every error raised on purpose. `detail` is one sentence for people."""

    status = 500

    def __init__(self, detail: str, **extra: Any) -> None:
        super().__init__(detail)
        self.detail = detail
        self.extra = extra


class UserError(PenstockError):
    """A call that was refused and changed nothing; `field` is a dotted path, `rule` the rule it breaks."""

    status = 400

    def __init__(self, detail: str, *, field: str | None = None, rule: str | None = None, **extra: Any) -> None:
        super().__init__(detail, **extra)
        self.field = field
        self.rule = rule


class InvalidConfig(UserError):
    status = 422


class Unauthenticated(UserError):
    status = 401


class Forbidden(UserError):
    status = 403


class NotFound(UserError):
    status = 404


class Conflict(UserError):
    status = 409


class VersionConflict(Conflict):
    """Compare-and-swap failed; `current_version` is the version to read and decide upon again."""

    def __init__(self, detail: str, *, current_version: int, field: str | None = None) -> None:
        super().__init__(detail, field=field, rule="if_match", current_version=current_version)
        self.current_version = current_version


class PreconditionRequired(UserError):
    status = 428


class TooManyCalls(UserError):
    """`extra` has `retry_after_seconds`, after which a call may be made."""

    status = 429


class RetryableError(PenstockError):
    status = 503


class Unavailable(RetryableError):
    """Something cannot be reached. Never evidence that what it manages is gone."""


class TransactionEnded(RetryableError):
    """The store answers, but ended a transaction, which changed nothing: a deadlock, a lock that somebody keeps, a full
    disk."""


class StatementTimedOut(RetryableError):
    """The store answers, but ended a statement at its time limit; the transaction changed nothing.

    `extra` has `statement`, the beginning of what ran, and `limit_seconds`, its limit. If this recurs, the statement is
    too slow for the amount of data, or waits for a lock that somebody keeps.
    """


class NotLeader(RetryableError):
    """This process does not hold the lease of its loop."""


class TerminalError(PenstockError):
    """Trying again cannot help."""


class Fenced(TerminalError):
    """A newer owner of the checkpoint or of the loop exists: stop at once."""


class LeaseLost(TerminalError):
    """The lease that allowed the action has run out."""


class BrokenTask(TerminalError):
    """The task cannot run as configured."""


class BrokenCheckpoint(TerminalError):
    """A checkpoint contradicts itself or belongs to another query."""
