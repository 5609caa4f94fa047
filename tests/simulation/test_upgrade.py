"""A release of a package to a whole cell, with the State Syncer's real rounds."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.simulation.upgrade import Figures, Upgrade


def test_a_release_of_all_jobs_goes_through_in_waves_within_the_budget() -> None:
    cell = Upgrade(tasks=400, containers=20, tasks_per_job=4)
    cell.run()
    assert cell.complaints == []
    assert cell.seconds is not None
    assert 1 < cell.most_at_once <= cell.limit == 10


@pytest.mark.long
def test_jobs_without_input_take_longer_since_only_time_proves_their_waves() -> None:
    busy, idle = (Upgrade(100, 10, 4, replace(Figures(), idle=share)) for share in (0.0, 1.0))
    busy.run()
    idle.run()
    assert busy.complaints == idle.complaints == []
    assert busy.seconds is not None
    assert idle.seconds is not None
    assert idle.seconds > 2 * busy.seconds
