"""Calls of the Job Service about rollouts of packages."""

from __future__ import annotations

from penstock.wire.jobs import Written
from penstock.wire.rollouts import RolloutView
from penstock.wire.service_client import ServiceClient, job_path


class RolloutCalls(ServiceClient):
    """Each order needs a reason. Raises Conflict when no package goes out that it could be about."""

    def rollout(self, job: str) -> RolloutView:
        """How far the package of a job has gone out."""
        return self._read(RolloutView, job_path(job, "rollout"))

    def pause_rollout(self, job: str, *, reason: str, idempotency_key: str | None = None) -> Written:
        """No further wave begins."""
        return self._order(job, "pause", reason, idempotency_key)

    def resume_rollout(self, job: str, *, reason: str, idempotency_key: str | None = None) -> Written:
        """A paused rollout continues."""
        return self._order(job, "resume", reason, idempotency_key)

    def abort_rollout(self, job: str, *, reason: str, idempotency_key: str | None = None) -> Written:
        """All tasks go back to the package before."""
        return self._order(job, "abort", reason, idempotency_key)

    def _order(self, job: str, what: str, reason: str, key: str | None) -> Written:
        return self._write("POST", job_path(job, "rollout", what), Written, {"reason": reason, "idempotency_key": key})
