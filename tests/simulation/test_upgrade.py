"""A release of a package to a whole cell, with the State Syncer's real rounds, and a cell of the design's size."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.simulation.upgrade import Figures, Upgrade
from tests.simulation.world import Size, simulate


def test_a_release_of_all_jobs_goes_through_in_waves_within_the_budget() -> None:
    cell = Upgrade(tasks=400, containers=20, tasks_per_job=4)
    cell.run()
    assert cell.complaints == []
    assert cell.seconds is not None
    assert 1 < cell.most_at_once <= cell.limit == 10


def test_jobs_without_input_take_longer_since_only_time_proves_their_waves() -> None:
    busy, idle = (Upgrade(100, 10, 4, replace(Figures(), idle=share)) for share in (0.0, 1.0))
    busy.run()
    idle.run()
    assert busy.complaints == idle.complaints == []
    assert busy.seconds is not None
    assert idle.seconds is not None
    assert idle.seconds > 2 * busy.seconds


@pytest.mark.long
def test_a_cell_of_the_largest_size_comes_to_what_was_asked_for() -> None:
    """3,000 containers and 100,000 tasks, all loops real."""
    size = Size(containers=3000, jobs=12_500, shards=100_000, faults_seconds=0.0, tasks_per_job=8)
    result = simulate(0, size)
    assert result.complaints == ()
