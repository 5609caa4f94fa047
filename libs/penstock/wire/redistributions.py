"""What the State Syncer asks of a Task Manager, and how.

Task Manager (7100+): PUT /v1/redistributions/{job}/{generation}       (RedistributionRequest -> RedistributionAnswer)
                      PUT /v1/redistributions/{job}/{generation}/seal  (SealRequest -> RedistributionAnswer)

`generation` is that of the request: the target's, the sealed one's. The first call begins the work, each further one
tells how far it is. What is done is told again; what failed is told once, and asked again it is tried again.
"""

from __future__ import annotations

from enum import StrEnum

import httpx
from pydantic import ValidationError

from penstock.config.model import Model
from penstock.control.errors import Unavailable
from penstock.tasks.redistribution import RedistributionReport, RedistributionRequest, SealRequest
from penstock.wire.cluster import as_json
from penstock.wire.http import error_of

MOST_WAIT_SECONDS = 5.0
_MARGIN_SECONDS = 4.0


class WorkState(StrEnum):
    """How far the work is."""

    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"


class RedistributionAnswer(Model):
    """`report` is that of a redistribution that is done, `error` and `error_kind` those of a failure.

    `error_kind`: `retryable`, or `broken` when only another request can help.
    """

    state: WorkState
    report: RedistributionReport | None = None
    error: str | None = None
    error_kind: str | None = None


class RedistributionClient:
    """Asks containers. Safe from any thread."""

    def __init__(self) -> None:
        self._http = httpx.Client(trust_env=False)

    def ask(
        self, url: str, request: RedistributionRequest | SealRequest, *, wait_seconds: float
    ) -> RedistributionAnswer:
        """Begins the work or asks for its end, which is waited for so long. Raises Unavailable, and UserError when
        the container refuses the request."""
        address = f"{url.rstrip('/')}{_path(request)}"
        timeout = wait_seconds + _MARGIN_SECONDS
        try:
            response = self._http.put(
                address, json=as_json(request), params={"wait_seconds": wait_seconds}, timeout=timeout
            )
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise Unavailable(f"{url} cannot be reached: {error!r}") from error
        if response.is_server_error:
            raise Unavailable(f"{url}: {response.status_code}")
        if response.is_error:
            raise error_of(response)
        try:
            return RedistributionAnswer.model_validate_json(response.content)
        except ValidationError as error:
            raise Unavailable(f"{url}: the answer cannot be read: {error}") from error

    def close(self) -> None:
        """Closes connections."""
        self._http.close()


def _path(request: RedistributionRequest | SealRequest) -> str:
    if isinstance(request, SealRequest):
        return f"/v1/redistributions/{request.job}/{request.layout.generation}/seal"
    return f"/v1/redistributions/{request.job}/{request.target.generation}"
