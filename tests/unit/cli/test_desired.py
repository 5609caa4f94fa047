"""What a start writes, and how long a layer still lasts: tables."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from penstock.cli.desired import Change, remaining_seconds, start_change
from penstock.wire.jobs import ExplainedLeafView, LayerView

NOW = datetime(2026, 1, 1, tzinfo=UTC)


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


@pytest.mark.parametrize(
    ("ends_in", "expected"), [(None, None), (90.2, 91), (0.0, 1), (-5.0, 1)], ids=["never", "later", "now", "over"]
)
def test_a_layer_keeps_its_end(ends_in: float | None, expected: int | None) -> None:
    ends = None if ends_in is None else NOW + timedelta(seconds=ends_in)
    layer = LayerView(job="etl", layer="oncall", version=1, expires_at=ends, config={})
    assert remaining_seconds(layer, NOW) == expected
