"""The class of an error that a crash is reported with: a table."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.model.reports import ErrorClass
from services.task_manager.decide.model import Crash
from tests.support.task_manager.world import spec


@pytest.mark.parametrize(
    ("crash", "expected"),
    [
        ({"error_kind": "retryable"}, ErrorClass.OTHER),
        ({"error_kind": "broken_task"}, ErrorClass.CONFIGURATION),
        ({"error_kind": "fenced"}, ErrorClass.FENCED),
        ({"error_kind": "retryable", "of_host": True}, ErrorClass.HOST),
        ({"error_kind": "retryable", "of_host": True, "out_of_memory": True}, ErrorClass.OUT_OF_MEMORY),
    ],
)
def test_the_class_of_a_crash(crash: dict[str, Any], expected: ErrorClass) -> None:
    known = {"error_kind": "retryable", "out_of_memory": False, **crash}
    assert Crash(spec(), 1, 1, "an error", retry_at=0.0, **known).error_class == expected
