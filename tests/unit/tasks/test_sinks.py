"""Which part of a job a host makes or checks before tasks start."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.tasks.digests import OUTPUT, digests_of
from penstock.tasks.sinks import prepared_part
from tests.support.store.jobs import make_config

PYTHON = {"query": {"sql": None, "python": "m:f"}, "package": {"name": "p"}}
SECOND = {"inputs": {"more": {"topic": "more", "key_groups": 8, "format": "raw"}}}
SIZED = {"output": {"key_groups": 4}}


@pytest.mark.parametrize(
    ("change", "prepared"),
    [
        ({}, set()),
        (SIZED, {"output"}),
        (PYTHON, {"query", "inputs"}),
        (PYTHON | {"task_count": 1}, set()),
        (SECOND, {"query", "inputs"}),
        (SECOND | {"task_count": 1}, set()),
        (PYTHON | SIZED, {"output", "query", "inputs"}),
    ],
)
def test_prepared_are_outputs_and_keys_that_only_spark_follows(change: dict[str, Any], prepared: set[str]) -> None:
    config = make_config(**change)
    assert prepared_part(config).keys() & {"output", "query", "inputs"} == prepared
    assert bool(digests_of(config)[OUTPUT]) == bool(prepared)


def test_more_tasks_of_a_checked_query_are_not_checked_again() -> None:
    two, four = (make_config(**PYTHON, task_count=count) for count in (2, 4))
    assert prepared_part(two) == prepared_part(four)
    assert digests_of(two)[OUTPUT] == digests_of(four)[OUTPUT]
    assert prepared_part(two) != prepared_part(make_config(**PYTHON | {"args": {"x": 1}}))
