"""Client of the Task Service, for Task Managers, tests and the CLI."""

from __future__ import annotations

from penstock.model.reports import TaskReportBatch, TaskReportChanges
from penstock.tasks.ownership import OwnedShards
from penstock.wire.cluster import (
    KNOWS_HEADER,
    KNOWS_LEVELS,
    REPORT_NUMBER_HEADER,
    ChangesAnswer,
    LeaseAnswer,
    LeaseRequest,
    Snapshot,
    as_json,
)
from penstock.wire.endpoints import Endpoints, read_answer

SERVICE = "the Task Service"
NOT_MODIFIED = 304
_POLL_MARGIN_SECONDS = 10.0
_KNOWS = {KNOWS_HEADER: KNOWS_LEVELS}


class TaskServiceClient(Endpoints):
    """Speaks to any of the Task Services at `urls` (comma separated). All calls raise Unavailable.

    Calls may come from different threads, those of `full` from one only: it remembers the ETag.
    """

    def __init__(self, urls: str, *, timeout_seconds: float = 20.0) -> None:
        super().__init__(SERVICE, urls, timeout_seconds=timeout_seconds)
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

    def renew_lease(self, request: LeaseRequest) -> OwnedShards:
        """Has the lease row of a container renewed. Raises LeaseLost."""
        response = self.request("POST", "/v1/leases", json=as_json(request))
        return read_answer(LeaseAnswer, response, SERVICE).owned()

    def report(self, batch: TaskReportBatch, number: int | None = None) -> bool:
        """Hands over what runs on a container. True when changes to the report with this number may follow."""
        query = {} if number is None else {"number": number}
        response = self.request("POST", "/v1/reports", params=query, json=as_json(batch))
        return number is not None and response.headers.get(REPORT_NUMBER_HEADER) == str(number)

    def report_changes(self, changes: TaskReportChanges) -> bool:
        """Hands over what changed on a container. False when the Task Service needs a full report instead."""
        response = self.request("POST", "/v1/reports/changes", json=as_json(changes))
        return read_answer(ChangesAnswer, response, SERVICE).stored
