"""A replay: another scaling policy over what is recorded of a job.

Job Service:          POST /v1/jobs/{job}/replays  (ReplayRequest -> ReplayView)
Auto Scaler (7074):   POST /v1/replays             (ReplayCall -> ReplayView), asked by the Job Service
"""

from __future__ import annotations

import threading
from functools import partial

import httpx
from pydantic import AwareDatetime, Field

from penstock.config.declare import Carried, Model, Name
from penstock.control.errors import Unavailable
from penstock.wire.cluster import as_json
from penstock.wire.endpoints import read_answer
from penstock.wire.http import Identity, answered, internal_client
from penstock.wire.jobs import JsonObject, View

REPLAY_SECONDS = 120.0
BUSY = "another replay is under way, and one runs at a time: try again when it is over"
HAS_NO_TASKS = "has_tasks"
"""The rule that a job breaks of which nothing can be replayed."""
_MARGIN_SECONDS = 5.0
_CONNECT_SECONDS = 2.0


class ReplayRequest(Model):
    """`policy`: fields of the Auto Scaler's policy, the others as by default. Without times: the last day."""

    policy: JsonObject
    since: AwareDatetime | None = Field(None, description="default: a day before `until`")
    until: AwareDatetime | None = Field(None, description="not included; default: the present minute")


class ReplayCall(Carried):
    """A request about a job, as the Job Service passes it on."""

    job: Name
    request: ReplayRequest


class ReplayTotals(View):
    """Minutes in which the worst task was beyond the SLO, hours of tasks, changes of the number of tasks."""

    slo_minutes_missed: int
    task_hours: float
    actions: int


class ReplayView(View):
    """What a policy would have done to a job between two minutes.

    `measured` is what happened; the other three are told by the model: what really ran, the policy in force, and the
    proposed one. `minutes_known`: those that count. `decisions`: how many are stored of this time;
    `decisions_otherwise`: those that the proposed policy decides otherwise on the same inputs. `notes`: what to know
    before trusting the figures.
    """

    job: str
    since: AwareDatetime
    until: AwareDatetime
    minutes: int
    minutes_known: int
    measured: ReplayTotals
    model_of_measured: ReplayTotals
    in_force: ReplayTotals
    proposed: ReplayTotals
    decisions: int
    decisions_otherwise: int
    notes: list[str]


class ReplayClient:
    """Asks the Auto Scaler, one replay at a time: each holds a thread of the caller until its answer. Safe from any
    thread."""

    def __init__(self, identity: Identity | None = None) -> None:
        self._http = internal_client(identity)
        self._one_at_a_time = threading.Lock()

    def replay(self, url: str, call: ReplayCall) -> ReplayView:
        """The replay by the Auto Scaler at `url`. Raises Unavailable, at once while another replay is under way, and
        UserError when the Auto Scaler refuses the call."""
        if not self._one_at_a_time.acquire(blocking=False):
            raise Unavailable(BUSY)
        try:
            return self._asked(url, call)
        finally:
            self._one_at_a_time.release()

    def _asked(self, url: str, call: ReplayCall) -> ReplayView:
        timeout = httpx.Timeout(REPLAY_SECONDS + _MARGIN_SECONDS, connect=_CONNECT_SECONDS)
        ask = partial(self._http.post, f"{url.rstrip('/')}/v1/replays", json=as_json(call), timeout=timeout)
        return read_answer(ReplayView, answered(f"the Auto Scaler at {url}", ask), url)
