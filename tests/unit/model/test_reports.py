"""Reports that a container cannot help: a measurement that no store holds is unknown, and refuses nothing."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from penstock.model.reports import TaskProgress, TaskReport

TASK: dict[str, Any] = {
    "job": "a",
    "index": 0,
    "state": "running",
    "revision": 1,
    "generation": 1,
    "restarts": 0,
    "epoch": 1,
}
MEASURED = sorted(
    name
    for name, field in TaskProgress.model_fields.items()
    if field.default is None and name not in ("watermark", "held_back_by", "observed_at")
)


@pytest.mark.parametrize("value", [2**63, -(2**64), float("nan"), float("inf"), "many", [1]])
@pytest.mark.parametrize("name", MEASURED)
def test_a_measurement_that_no_column_holds_is_unknown(name: str, value: Any) -> None:
    progress = TaskReport.model_validate(TASK | {"progress": {"late_rows_dropped": 7, name: value}}).progress
    is_a_rate = TaskProgress.model_fields[name].annotation == float | None and isinstance(value, int)
    assert progress is not None
    assert getattr(progress, name) == (float(value) if is_a_rate else None)
    assert name == "late_rows_dropped" or progress.late_rows_dropped == 7


def test_a_load_that_is_no_number_is_not_measured() -> None:
    assert TaskReport.model_validate(TASK | {"load": {"cpu_cores": float("nan")}}).load is None
    assert TaskReport.model_validate(TASK | {"load": {"cpu_cores": 0.5}}).load == {"cpu_cores": 0.5}


@pytest.mark.parametrize(
    ("name", "value"),
    [("index", 2**31), ("index", -1), ("restarts", 2**31), ("crashes", 2**31), ("revision", 2**53 + 1), ("epoch", -1)],
)
def test_a_number_that_says_which_task_it_is_must_fit(name: str, value: int) -> None:
    with pytest.raises(ValidationError, match=name):
        TaskReport.model_validate(TASK | {name: value})
