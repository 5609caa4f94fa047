"""What may be asked of a rollout, by its state."""

from __future__ import annotations

from typing import get_args

import pytest

from penstock.wire.rollouts import RolloutState, RolloutView
from services.console.views.rollouts import possible, share

POSSIBLE: dict[RolloutState, list[str]] = {
    "none": [],
    "rolling": ["pause", "abort"],
    "late": ["pause", "abort"],
    "paused": ["resume", "abort"],
    "aborting": [],
    "rolling_back": [],
    "halted": ["abort"],
}


@pytest.mark.parametrize("state", get_args(RolloutState))
def test_only_what_can_be_done_has_a_form(state: RolloutState) -> None:
    assert [order.name for order in possible(RolloutView(job="etl", state=state))] == POSSIBLE[state]


def test_the_share_is_of_all_tasks_and_unknown_without_a_rollout() -> None:
    assert share(RolloutView(job="etl", state="rolling", upgraded=2, tasks=8)) == 0.25
    assert share(RolloutView(job="etl", state="none")) is None
