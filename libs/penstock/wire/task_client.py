"""Client of the Task Service, for Task Managers, tests and the CLI."""

from __future__ import annotations

from penstock.model.reports import TaskReportBatch
from penstock.wire.cluster import KNOWS_HEADER, KNOWS_LEVELS, Snapshot, as_json
from penstock.wire.endpoints import Endpoints, read_answer
from penstock.wire.http import Identity

SERVICE = "the Task Service"
NOT_MODIFIED = 304
_POLL_MARGIN_SECONDS = 10.0
_KNOWS = {KNOWS_HEADER: KNOWS_LEVELS}


class TaskServiceClient(Endpoints):
    """Speaks to any of the Task Services at `urls` (comma separated). All calls raise Unavailable.

    Calls may come from different threads, those of `full` from one only: it remembers the ETag.
    """

    def __init__(self, urls: str, *, timeout_seconds: float = 20.0, identity: Identity | None = None) -> None:
        super().__init__(SERVICE, urls, timeout_seconds=timeout_seconds, identity=identity)
        self._etag: str | None = None

    def full(self) -> Snapshot | None:
        """The full snapshot; None when it is still the one that this client got last."""
        headers = _KNOWS | ({"If-None-Match": self._etag} if self._etag else {})
        response = self.request("GET", "/v1/specs", headers=headers)
        if response.status_code == NOT_MODIFIED:
            return None
        snapshot = read_answer(Snapshot, response, SERVICE)
        self._etag = response.headers.get("ETag")
        return snapshot

    def delta(self, after: int, wait_seconds: float) -> Snapshot:
        """What was committed after `after`; waits up to `wait_seconds` for it. May be full when `after` is too old."""
        response = self.request(
            "GET",
            "/v1/specs",
            headers=_KNOWS,
            params={"after": after, "wait_seconds": wait_seconds},
            timeout=wait_seconds + _POLL_MARGIN_SECONDS,
        )
        return read_answer(Snapshot, response, SERVICE)

    def report(self, batch: TaskReportBatch) -> None:
        """Hands over what runs on a container."""
        self.request("POST", "/v1/reports", json=as_json(batch))
