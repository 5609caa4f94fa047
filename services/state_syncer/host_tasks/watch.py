"""What a round observes of plans under way: their containers, outcomes, and the containers to ask next. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Protocol

from penstock.tasks.host_task import POLICIES, REDISTRIBUTE
from services.state_syncer.decide.progress import Step
from services.state_syncer.decide.view import JobView
from services.state_syncer.host_tasks.next_attempt import Candidates, Place, pick
from services.state_syncer.host_tasks.outcomes import AttemptKey, Outcome
from services.state_syncer.host_tasks.plan_requests import task_of

ROLLOUT = "rollout"


class Recorded(Protocol):
    """The part of a recorded plan that this module uses."""

    @property
    def plan(self) -> Mapping[str, Any]:
        """As JSON."""
        ...

    @property
    def deleting(self) -> bool:
        """Whether the job is being deleted, which its plan waits for."""
        ...


def is_rollout(row: Recorded) -> bool:
    """Whether the plan is that of a rollout; all others are of rescales."""
    return row.plan.get("kind") == ROLLOUT


class Watch:
    """All plans of rescales and live containers of one moment. `state_bytes`: the reported size of the jobs' state,
    where it is known."""

    def __init__(
        self,
        plans: Mapping[str, Recorded],
        containers: Mapping[str, Place],
        outcome: Callable[[AttemptKey], Outcome],
        state_bytes: Mapping[str, int] | None = None,
    ) -> None:
        under_way = {job: row for job, row in plans.items() if not row.deleting}
        self.state_bytes = state_bytes or {}
        self._outcome = outcome
        asked = (AttemptKey(job, REDISTRIBUTE, None, row.plan.get("container")) for job, row in under_way.items())
        self._candidates = Candidates(containers, asked)

    def url(self, container: str | None) -> str | None:
        """Where a chosen container is reached: empty while it is not live, None when none is chosen."""
        place = None if container is None else self._candidates.places.get(container)
        return place.url if place is not None else None if container is None else ""

    def observe(self, view: JobView) -> JobView:
        """The view with the observed progress of its plan's step."""
        progress = view.progress
        if progress is None or view.deleting:
            return view
        plan = progress.plan
        task = task_of(view.job, plan, view.failures)
        candidate = pick(task, self._candidates, POLICIES[REDISTRIBUTE])
        if candidate is not None and plan.step is Step.AWAIT_STOPPED:
            # Each observation counts, so that plans that begin together are spread.
            self._candidates.add(REDISTRIBUTE, candidate)
        seen = replace(
            progress,
            outcome=self._outcome(task.key),
            candidate=candidate,
            container_lives=plan.container in self._candidates.places,
        )
        return replace(view, progress=seen)
