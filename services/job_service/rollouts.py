"""What operators ask of a rollout: what is recorded of it, or why it is refused; and what is shown of it. Pure.

The State Syncer carries an order out. It is about the rollout that began at `begun_at`, and ends with that.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

from penstock.control.errors import Conflict
from penstock.model.jobs import Action
from penstock.tasks.rollout import PACKAGE, OrderedRollout, RolloutOrder
from penstock.wire.rollouts import RolloutOrderView, RolloutState, RolloutView


class RecordedRollout(NamedTuple):
    """What is recorded of a job. `plan` may be one of a rescale, and `rollout_order` one about an earlier rollout.

    `refused`: the open alert that says why the package is not rolled back.
    """

    detail: str
    plan: Mapping[str, Any] | None
    rollout_order: Mapping[str, Any] | None
    refused: str | None = None

    @property
    def rollout(self) -> Mapping[str, Any] | None:
        """The recorded rollout, if there is one."""
        return self.plan if self.plan is not None and self.plan.get("kind") == "rollout" else None

    @property
    def ordered(self) -> Mapping[str, Any] | None:
        """What was asked of this rollout."""
        rollout, order = self.rollout, self.rollout_order
        is_mine = rollout is not None and order is not None and order.get("begun_at") == rollout.get("begun_at")
        return order if is_mine else None


NOTHING_RECORDED = RecordedRollout("", None, None)


def decide_order(
    job: str, action: Action, found: RecordedRollout, author: str, reason: str, now: datetime
) -> OrderedRollout | None:
    """The order that the call records; None when it takes one back. Raises Conflict."""
    rollout, asked = found.rollout, (found.ordered or {}).get("action")
    if rollout is None:
        raise _conflict(f"no package of {job} is going out")
    is_halted = rollout.get("step") == "roll_back"
    if is_halted and (action is not Action.ABORT_ROLLOUT or rollout.get("goes_back")):
        raise _conflict(f"the package of {job} is rejected already: {found.detail}")
    if asked == RolloutOrder.ABORT and action is not Action.ABORT_ROLLOUT:
        raise _conflict(f"the rollout of {job} is aborted already")
    if action is Action.RESUME_ROLLOUT:
        if asked != RolloutOrder.PAUSE:
            raise _conflict(f"the rollout of {job} is not paused by anybody")
        return None
    order = RolloutOrder.PAUSE if action is Action.PAUSE_ROLLOUT else RolloutOrder.ABORT
    return OrderedRollout(action=order, begun_at=rollout["begun_at"], author=author, reason=reason, at=now)


def view_of(job: str, found: RecordedRollout) -> RolloutView:
    """What is shown of a rollout."""
    rollout = found.rollout
    if rollout is None:
        return RolloutView(job=job, state="none", refused=found.refused)
    ends, wave, order = rollout["ends"], rollout["wave"], found.ordered
    leaves = [leaf for leaf in rollout["leaves"] if leaf["path"][0] == PACKAGE]
    return RolloutView(
        job=job,
        state=_state(rollout, order),
        detail=found.detail,
        package=", ".join(f"{leaf['path'][1]} {leaf['new']}" for leaf in leaves),
        revision=rollout["revision"],
        wave=wave + 1,
        waves=len(ends),
        upgraded=ends[wave],
        tasks=ends[-1],
        begun_at=rollout["begun_at"],
        order=None if order is None else RolloutOrderView.model_validate(order),
        refused=found.refused,
    )


def _state(rollout: Mapping[str, Any], order: Mapping[str, Any] | None) -> RolloutState:
    asked = None if order is None else order["action"]
    is_halted = rollout["step"] == "roll_back"
    if asked == RolloutOrder.ABORT and not (is_halted and rollout["goes_back"]):
        return "aborting"
    if is_halted:
        return "rolling_back" if rollout["goes_back"] else "halted"
    if asked == RolloutOrder.PAUSE:
        return "paused"
    return "late" if rollout.get("late") else "rolling"


def _conflict(detail: str) -> Conflict:
    return Conflict(detail, field="job", rule="rolling")
