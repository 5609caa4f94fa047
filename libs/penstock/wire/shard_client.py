"""Client of the Shard Manager, for Task Managers, tests and the CLI."""

from __future__ import annotations

from typing import Any

from penstock.wire.cluster import HeartbeatAnswer, HeartbeatRequest, as_json
from penstock.wire.endpoints import Endpoints, read_answer
from penstock.wire.http import Identity

SERVICE = "the Shard Manager"


class ShardManagerClient(Endpoints):
    """Speaks to the leader among the Shard Managers at `urls` (comma separated). Safe from any thread."""

    def __init__(
        self, urls: str, *, timeout_seconds: float = 5.0, identity: Identity | None = None, **limits: Any
    ) -> None:
        """`limits`: `limit_seconds` and `now` of `Endpoints`."""
        super().__init__(SERVICE, urls, timeout_seconds=timeout_seconds, identity=identity, **limits)

    def heartbeat(self, request: HeartbeatRequest) -> HeartbeatAnswer:
        """One heartbeat. Raises Unavailable when no leader gives an answer that can be read."""
        response = self.request("POST", "/v1/heartbeats", json=as_json(request))
        return read_answer(HeartbeatAnswer, response, SERVICE)
