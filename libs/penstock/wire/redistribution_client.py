"""Client of a Task Manager's work on checkpoints, for the State Syncer and tests."""

from __future__ import annotations

import httpx
from pydantic import ValidationError

from penstock.control.errors import Unavailable
from penstock.tasks.redistribution import GenerationRemoval, RedistributionRequest, SealRequest
from penstock.tasks.savepoint import SavepointRemoval, SavepointRequest
from penstock.tasks.sinks import SinkRequest
from penstock.tasks.work import HostWork
from penstock.wire.cluster import as_json
from penstock.wire.http import error_of
from penstock.wire.redistributions import RedistributionAnswer

_MARGIN_SECONDS = 4.0


class RedistributionClient:
    """Asks containers. Safe from any thread."""

    def __init__(self) -> None:
        self._http = httpx.Client(trust_env=False)

    def ask(self, url: str, request: HostWork, *, wait_seconds: float) -> RedistributionAnswer:
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


def _path(request: HostWork) -> str:
    match request:
        case SealRequest():
            return f"/v1/redistributions/{request.job}/{request.layout.generation}/seal"
        case RedistributionRequest():
            return f"/v1/redistributions/{request.job}/{request.target.generation}"
        case GenerationRemoval():
            return f"/v1/redistributions/{request.job}/{request.generation}/removal"
        case SavepointRequest():
            return f"/v1/savepoints/{request.job}/{request.number}"
        case SavepointRemoval():
            return f"/v1/savepoints/{request.job}/{request.number}/removal"
        case SinkRequest():
            return f"/v1/sinks/{request.job}/{request.revision}"
