"""Client of the Task Service, for Task Managers, tests and the CLI."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.model.reports import TaskReportBatch, TaskReportChanges
from penstock.tasks.ownership import OwnedShards
from penstock.wire.cluster import (
    KNOWS_DIGESTS,
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
from penstock.wire.http import Identity

SERVICE = "the Task Service"
_POLL_MARGIN_SECONDS = 10.0
_KNOWS = {KNOWS_HEADER: f"{KNOWS_LEVELS}, {KNOWS_DIGESTS}"}


class TaskServiceClient(Endpoints):
    """Speaks to any of the Task Services at `urls` (comma separated). Calls raise Unavailable. Safe from any thread.

    `after` and `store` say the newest commit that the caller has acted on, and the incarnation of the store that it is
    of. A Task Service that is behind reads the store again. It answers with this commit or a later one, or with a full
    snapshot of another incarnation, or not at all.
    """

    def __init__(
        self, urls: str, *, timeout_seconds: float = 20.0, identity: Identity | None = None, **limits: Any
    ) -> None:
        """`limits`: `limit_seconds` and `now` of `Endpoints`."""
        super().__init__(SERVICE, urls, timeout_seconds=timeout_seconds, identity=identity, **limits)

    def full(self, after: int = -1, store: str = "") -> Snapshot:
        """The full snapshot."""
        known = {} if after < 0 else {"after": after, "store": store, "full": True}
        return self._snapshot(known, {})

    def delta(self, after: int, wait_seconds: float, store: str = "") -> Snapshot:
        """What was committed after `after`; waits up to `wait_seconds` for it. Full when the incarnation is another."""
        asked = {"after": after, "wait_seconds": wait_seconds, "store": store}
        return self._snapshot(asked, {"timeout": wait_seconds + _POLL_MARGIN_SECONDS})

    def _snapshot(self, params: Mapping[str, Any], options: Mapping[str, Any]) -> Snapshot:
        response = self.request("GET", "/v1/specs", headers=_KNOWS, params=params, **options)
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
