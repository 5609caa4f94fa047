"""The configuration of a staging run, and for which configurations its rate holds."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.config.model import JobConfig
from penstock.tasks.profile import is_as_fast, staged
from tests.support.store.jobs import make_config

CONFIG = JobConfig.model_validate(make_config())
STORED = CONFIG.model_dump(mode="json")


@pytest.mark.parametrize(("seconds", "batch"), [(5, 0.5), (60, 5.0), (600, 10.0)])
def test_a_run_has_room_for_some_batches(seconds: int, batch: float) -> None:
    assert staged(CONFIG, seconds).max_batch_seconds == batch


@pytest.mark.parametrize(
    "limits", [{"max_batch_seconds": 3.0}, {"max_records_per_trigger": 10}, {"max_bytes_per_trigger": 10}]
)
def test_limits_of_the_job_count_as_they_are(limits: dict[str, Any]) -> None:
    found = staged(CONFIG.model_copy(update=limits), 60)
    assert {name: getattr(found, name) for name in limits} == limits
    assert found.max_batch_seconds == limits.get("max_batch_seconds")


def test_a_run_reads_from_the_beginning() -> None:
    inputs = {name: each.model_copy(update={"starting_position": "latest"}) for name, each in CONFIG.inputs.items()}
    found = staged(CONFIG.model_copy(update={"inputs": inputs}), 60)
    assert {each.starting_position for each in found.inputs.values()} == {"earliest"}


@pytest.mark.parametrize(
    ("changed", "holds"),
    [
        ({"task_count": 7}, True),
        ({"priority": 3, "owner": "ann"}, True),
        ({"trigger_interval_seconds": 3.0}, True),
        ({"query": {"sql": "SELECT 1"}}, False),
        ({"threads_per_task": 4}, False),
        ({"state_backend": "other"}, False),
        ({"package": {"name": "p", "version": "2"}}, False),
    ],
)
def test_a_rate_holds_for_what_is_as_fast(changed: dict[str, Any], holds: bool) -> None:
    assert is_as_fast(STORED, STORED | changed) is holds
