"""How long failed tasks back off."""

from __future__ import annotations

import pytest

from services.task_manager.decide.model import Limits
from services.task_manager.observed.failures import delay_seconds, retry_seconds


@pytest.mark.parametrize(
    ("count", "least", "most"), [(1, 0, 0), (2, 0.75, 1), (3, 1.5, 2), (4, 3, 4), (8, 45, 60), (500, 45, 60)]
)
def test_pauses_double_up_to_the_cap(count: int, least: float, most: float) -> None:
    assert least <= delay_seconds("flights/0", count, 1.0, 60.0) <= most


def test_jitter_is_of_the_name_and_so_repeatable() -> None:
    pauses = {delay_seconds(f"flights/{index}", 2, 10.0, 60.0) for index in range(20)}
    assert len(pauses) == 20
    assert pauses == {delay_seconds(f"flights/{index}", 2, 10.0, 60.0) for index in range(20)}


def test_broken_tasks_wait_longer_and_from_the_first_failure_on() -> None:
    limits = Limits()
    assert retry_seconds("flights/0", 1, "retryable", limits) == 0
    assert retry_seconds("flights/0", 1, "broken_task", limits) >= 7.5
    assert retry_seconds("flights/0", 9, "broken_task", limits) > retry_seconds("flights/0", 9, "retryable", limits)
