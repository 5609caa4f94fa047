"""The step from a running spec to a desired one."""

from __future__ import annotations

import pytest

from services.task_manager.decide.changes import Step, step_between
from tests.support.task_manager.world import spec


@pytest.mark.parametrize(
    ("change", "step"),
    [
        ({}, Step.NOTHING),
        ({"revision": 2}, Step.ADOPT),
        ({"revision": 2, "owner": "someone"}, Step.ADOPT),
        ({"revision": 2, "priority": 7}, Step.LIVE),
        ({"revision": 2, "priority": 7, "trigger_interval_seconds": 1.0}, Step.RESTART),
        ({"restarts": 1}, Step.RESTART),
        ({"generation": 2}, Step.RESTART),
        ({"task_count": 3}, Step.RESTART),
        ({"query": {"sql": "SELECT 1"}}, Step.RESTART),
    ],
)
def test_the_cheapest_step_that_is_enough(change: dict[str, object], step: Step) -> None:
    assert step_between(spec(), spec(**change)) is step
