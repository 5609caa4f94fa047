"""What a start writes: a table."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.wire.desired import Change, start_change
from penstock.wire.jobs import ExplainedLeafView


def leaf(layer: str, value: str, *below: tuple[str, str]) -> ExplainedLeafView:
    hidden = [{"layer": name, "version": 1, "field": "desired_state", "value": each} for name, each in below]
    known: dict[str, Any] = dict.fromkeys(ExplainedLeafView.model_fields)
    facts = {"field": "desired_state", "path": ["desired_state"], "value": value, "layer": layer, "hides": hidden}
    return ExplainedLeafView.model_validate(known | facts)


RUNS = ("default", "running")


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        pytest.param(leaf(*RUNS), None, id="nothing stops it"),
        pytest.param(leaf("oncall", "running", ("base", "stopped"), RUNS), None, id="it was started already"),
        pytest.param(leaf("oncall", "stopped", RUNS), Change("oncall", None), id="the layer gives it up"),
        pytest.param(
            leaf("oncall", "stopped", ("base", "stopped"), RUNS), Change("oncall", "running"), id="also stopped below"
        ),
        pytest.param(leaf("base", "stopped", RUNS), Change("base", None), id="the job's own definition"),
    ],
)
def test_what_starts_a_job(known: ExplainedLeafView, expected: Change | None) -> None:
    assert start_change(known) == expected
