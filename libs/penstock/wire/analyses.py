"""What the Job Service asks of a Task Manager: Spark's analysis of a job that is to be written.

Task Manager (7100+): POST /v1/analyses  (AnalysisCall -> AnalysisReport; 503 when no host can answer in time)
"""

from __future__ import annotations

from functools import partial

import httpx
from pydantic import Field

from penstock.config.declare import Carried
from penstock.tasks.analysis import AnalysisReport, AnalysisRequest
from penstock.wire.cluster import as_json
from penstock.wire.endpoints import read_answer
from penstock.wire.http import Identity, answered, internal_client

_MARGIN_SECONDS = 2.0
_CONNECT_SECONDS = 0.5


class AnalysisCall(Carried):
    """`start_host`: a host is started when none with the job's package is ready. `await_host`: none is started, and
    one that is starting already is awaited."""

    request: AnalysisRequest
    wait_seconds: float = Field(ge=0, le=60)
    start_host: bool = False
    await_host: bool = False


class AnalysisClient:
    """Asks containers. Safe from any thread."""

    def __init__(self, identity: Identity | None = None) -> None:
        self._http = internal_client(identity)

    def analyse(self, url: str, call: AnalysisCall) -> AnalysisReport:
        """The analysis by the container at `url`. Raises Unavailable, and UserError when it refuses the call."""
        timeout = httpx.Timeout(call.wait_seconds + _MARGIN_SECONDS, connect=_CONNECT_SECONDS)
        ask = partial(self._http.post, f"{url.rstrip('/')}/v1/analyses", json=as_json(call), timeout=timeout)
        return read_answer(AnalysisReport, answered(url, ask), url)

    def close(self) -> None:
        """Closes connections."""
        self._http.close()
