"""Client of the Shard Manager, for Task Managers, tests and the CLI."""

from __future__ import annotations

from pydantic import ValidationError

from penstock.control.errors import Unavailable
from penstock.wire.cluster import HeartbeatAnswer, HeartbeatRequest, as_json
from penstock.wire.endpoints import Endpoints


class ShardManagerClient:
    """Speaks to the leader among the Shard Managers at `urls` (comma separated). Safe from any thread."""

    def __init__(self, urls: str, *, timeout_seconds: float = 5.0) -> None:
        self._endpoints = Endpoints("Shard Manager", urls, timeout_seconds=timeout_seconds)

    def heartbeat(self, request: HeartbeatRequest) -> HeartbeatAnswer:
        """One heartbeat. Raises Unavailable when no leader gives an answer that can be read."""
        response = self._endpoints.request("POST", "/v1/heartbeats", json=as_json(request))
        try:
            return HeartbeatAnswer.model_validate_json(response.content)
        except ValidationError as error:
            raise Unavailable(f"the Shard Manager's answer cannot be read: {error}") from error

    def close(self) -> None:
        """Closes connections."""
        self._endpoints.close()
