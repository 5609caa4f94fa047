"""The answer of `GET /v1/jobs/{job}/causes`."""

from __future__ import annotations

from pydantic import Field

from penstock.model.causes import CauseKind, Certainty
from penstock.model.states import Health
from penstock.wire.job_views import View


class CauseView(View):
    """A cause with what shows it, and what to do. `evidence`: sentences, the most telling one first."""

    kind: CauseKind
    certainty: Certainty
    summary: str
    evidence: list[str]
    advice: str


class Causes(View):
    """Why a job is not healthy, the likeliest cause first. None: no cause is known, or the job is healthy.

    `open_alerts`: a sentence for each open alert about the job or its tasks that no cause tells, also of a healthy job.
    """

    job: str
    health: Health
    reason: str
    causes: list[CauseView]
    open_alerts: list[str] = Field(default_factory=list)
