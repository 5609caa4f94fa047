"""What a round sees of the plans under way: who works for them, what came of it, and who could be asked next. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Protocol

from penstock.tasks.selectors import selector_of
from services.state_syncer.asks import AskKey, key_of
from services.state_syncer.plan import JobView
from services.state_syncer.progress import Helper, Outcome, Place, Progress, Step, choose

ROLLOUT = "rollout"


class Recorded(Protocol):
    """What is used of a recorded plan."""

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
    """All plans of rescales and live containers of one moment. `rollouts`: so many are recorded. `active`: the plans
    that disrupt a job, `rescales` those of them that redistribute."""

    def __init__(
        self,
        plans: Mapping[str, Recorded],
        containers: Mapping[str, Place],
        outcome: Callable[[AskKey], Outcome],
        rollouts: int = 0,
    ) -> None:
        under_way = [row for row in plans.values() if not row.deleting]
        self.rescales = len(under_way)
        self.active = self.rescales + rollouts
        self._containers = containers
        self._outcome = outcome
        self._load = Counter(str(row.plan.get("container")) for row in under_way)

    def url(self, container: str | None) -> str | None:
        """Where a live container is reached."""
        place = None if container is None else self._containers.get(container)
        return None if place is None else place.url

    def look(self, view: JobView) -> JobView:
        """The view with what is known of its plan's step."""
        progress = view.progress
        if progress is None or view.deleting:
            return view
        plan = progress.plan
        seen = replace(
            progress,
            outcome=self._outcome(key_of(view.job, plan, view.failures)),
            candidate=self._candidate(progress),
            container_lives=plan.container in self._containers,
        )
        return replace(view, progress=seen)

    def _candidate(self, progress: Progress) -> str | None:
        """Each look counts as work, so that plans that begin together are spread."""
        plan = progress.plan
        helpers = [Helper(name, place.offers, self._load[name]) for name, place in self._containers.items()]
        chosen = choose(helpers, selector_of(plan.config), plan.container, plan.ran_on)
        if chosen is not None and plan.step is Step.AWAIT_STOPPED:
            self._load[chosen] += 1
        return chosen
