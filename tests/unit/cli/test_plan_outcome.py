"""What `penstock plan` says of a plan."""

from __future__ import annotations

from penstock.cli.jobs import plan_outcome
from penstock.wire.jobs import PlanView


def test_the_waves_of_a_package_are_told_with_their_tasks() -> None:
    answer = PlanView(
        job="etl",
        layer="base",
        version=1,
        kind="restart",
        allowed=True,
        fields=[],
        steps=["initialize_sink", "wave_1", "wave_2"],
        waves=[["etl/0"], ["etl/1", "etl/2"]],
        tasks_touched=["etl/0", "etl/1", "etl/2"],
        downtime_seconds=None,
        catch_up_seconds=None,
        config={},
    )
    assert list(plan_outcome(answer))[:3] == ["1. initialize_sink", "2. wave_1: etl/0", "3. wave_2: etl/1, etl/2"]
