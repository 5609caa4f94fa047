"""The client library: all calls of the Job Service, typed, and changes of a layer by compare-and-swap.

These names stay: `Client`, `Edited`, and the errors, which `penstock.control.errors` explains.
"""

from __future__ import annotations

from penstock.client.client import Client, Edited
from penstock.control.errors import (
    Conflict,
    Forbidden,
    InvalidConfig,
    NotFound,
    PenstockError,
    RetryableError,
    Unauthenticated,
    Unavailable,
    UserError,
    VersionConflict,
)

__all__ = [
    "Client",
    "Conflict",
    "Edited",
    "Forbidden",
    "InvalidConfig",
    "NotFound",
    "PenstockError",
    "RetryableError",
    "Unauthenticated",
    "Unavailable",
    "UserError",
    "VersionConflict",
]
