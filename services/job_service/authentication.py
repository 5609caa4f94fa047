"""Bearer tokens to principals, with a short cache."""

from __future__ import annotations

import math
import threading
from collections import OrderedDict

from sqlalchemy import Engine

from penstock.control.clock import Clock
from penstock.control.errors import Unauthenticated
from penstock.store import tokens
from penstock.store.engine import transaction
from services.job_service.access import ANYBODY, Principal

_MOST_REMEMBERED = 10_000


class Authenticator:
    """Finds who a token belongs to. A revoked token stays good for `cache_seconds` at most, an expired one not."""

    def __init__(self, engine: Engine, clock: Clock, *, enabled: bool, cache_seconds: float) -> None:
        self._engine = engine
        self._clock = clock
        self._enabled = enabled
        self._cache_seconds = cache_seconds
        self._lock = threading.Lock()
        self._found: OrderedDict[str, tuple[float, Principal]] = OrderedDict()

    def principal(self, token: str | None) -> Principal:
        """Who the token belongs to. Raises Unauthenticated."""
        found = self.remembered(token)
        if found is not None:
            return found
        if token is None:
            raise Unauthenticated(
                "send a token: `Authorization: Bearer ...`", field="Authorization", rule="bearer_token"
            )
        found = self._find(tokens.digest(token))
        if found is None:
            raise Unauthenticated(
                "the token is unknown or revoked, or has expired", field="Authorization", rule="bearer_token"
            )
        return found

    def remembered(self, token: str | None) -> Principal | None:
        """Who the token belongs to, from the cache; None when the store must be asked."""
        if not self._enabled:
            return ANYBODY
        if token is None:
            return None
        with self._lock:
            good_until, principal = self._found.get(tokens.digest(token), (float("-inf"), None))
        return principal if self._clock.monotonic() < good_until else None

    def _find(self, digest: str) -> Principal | None:
        now = self._clock.monotonic()
        with transaction(self._engine) as connection:
            found = tokens.find(connection, digest)
        if found is None:
            return None
        principal = Principal(found.row.name, found.row.role, tuple(found.row.layers))
        good_seconds = math.inf if found.good_seconds is None else found.good_seconds
        with self._lock:
            self._found[digest] = (now + min(self._cache_seconds, good_seconds), principal)
            self._found.move_to_end(digest)
            while len(self._found) > _MOST_REMEMBERED:
                self._found.popitem(last=False)
        return principal
