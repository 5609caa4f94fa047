"""What reports say of key groups."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from penstock.config.validate import check_merged
from penstock.model.traffic import measured
from tests.support.config.jobs import job

NOW = datetime(2026, 1, 1, tzinfo=UTC)
CONFIG = check_merged(job({"inputs": {"flights": {"key_groups": 4}}}))


@dataclass(frozen=True)
class Report:
    """A task's last report."""

    progress: Mapping[str, Any] | None
    reported_at: datetime = NOW
    state: str = "running"


def told(first: int, *rates: float, seconds: float = 600.0) -> dict[str, Any]:
    return {"key_group_rates": {"first": first, "records_per_second": rates, "seconds": seconds}}


@pytest.mark.parametrize(
    ("reports", "expected"),
    [
        pytest.param([], (None, None, None, None), id="no report"),
        pytest.param([Report(told(1, 5.0, 6.0))], (None, 5.0, 6.0, None), id="one task"),
        pytest.param([Report(told(0, 0.0))], (0.0, None, None, None), id="nothing came is known"),
        pytest.param([Report(None), Report({}), Report({"key_group_rates": None})], (None,) * 4, id="nothing told"),
        pytest.param([Report({"key_group_rates": {"of": "the future"}})], (None,) * 4, id="of another version"),
        pytest.param([Report(told(3, 1.0, 2.0))], (None, None, None, 1.0), id="more key groups than there are"),
        pytest.param(
            [Report(told(0, 2.0)), Report(told(0, 1.0), NOW - timedelta(minutes=1))],
            (2.0, None, None, None),
            id="a task that moved: the later report",
        ),
        pytest.param([Report(told(0, 1.0), NOW - timedelta(minutes=11))], (None,) * 4, id="long ago"),
        pytest.param([Report(told(0, 1.0), state="stopping")], (None,) * 4, id="not running"),
        pytest.param([Report(told(0, 1.0, seconds=59.0))], (None,) * 4, id="over too short a time"),
    ],
)
def test_measured(reports: list[Report], expected: tuple[float | None, ...]) -> None:
    assert measured(reports, CONFIG, NOW, min_seconds=60) == expected
