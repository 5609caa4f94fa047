"""What a savepoint means for the configuration of the job that goes on from it."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.config.validate import check_merged
from penstock.control.errors import Conflict
from services.job_service.savepoints import code_of

CONFIG: dict[str, Any] = {
    "package": {"name": "flights", "version": "2", "digest": "sha256:" + "2" * 64},
    "query": {"python": "flights.jobs:hourly"},
    "inputs": {"flights": {"topic": "flights", "key_groups": 8, "value_schema": "a INT"}},
    "output": {"type": "kafka", "topic": "out"},
}
PRESENT = check_merged(CONFIG)


def saved(**more: Any) -> dict[str, Any]:
    return check_merged({**CONFIG, **more}).model_dump(mode="json")


def test_only_what_differs_of_package_and_query_comes_back() -> None:
    package = {**CONFIG["package"], "version": "1", "digest": "sha256:" + "1" * 64}
    assert code_of(saved(package=package, task_count=3), PRESENT) == {
        "package": {"version": "1", "digest": "sha256:" + "1" * 64}
    }
    assert code_of(saved(query={"python": "flights.jobs:daily"}), PRESENT) == {
        "query": {"python": "flights.jobs:daily"}
    }
    assert code_of(saved(priority=3), PRESENT) == {}


def test_what_was_absent_cannot_be_taken_away_by_a_layer_above() -> None:
    with pytest.raises(Conflict) as refused:
        code_of(saved(package={"name": "flights", "version": "1"}), PRESENT)
    assert (refused.value.field, refused.value.rule) == ("package.digest", "present_in_savepoint")
