"""Late rows: counts of progress records to the reason of an alert."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.config.model import JobConfig
from penstock.model.alerts import INPUT_ALERTS, AlertKind
from penstock.spark.measure.late import count, reason
from penstock.spark.measure.malformed import Counts, with_count
from tests.support.config.jobs import job

TIMED = {"value_schema": "at TIMESTAMP", "event_time_column": "at", "watermark_delay": "1 minute"}


def dropped(*rows: int) -> Counts:
    """Ten seconds after each other, since the query's start."""
    counts: Counts = ()
    for place, each in enumerate(rows):
        counts = with_count(counts, count(10.0 * place, each))
    return counts


@pytest.mark.parametrize(
    ("counts", "more", "least", "said"),
    [
        ((), {}, 1, None),
        (dropped(0, 0), {}, 1, None),
        (dropped(0, 1), {}, 1, "1 late row was dropped in 5 minutes, or more"),
        (dropped(0, 3, 7), {}, 7, "7 late rows were dropped in 5 minutes, or more"),
        (dropped(0, 3, 7), {}, 8, None),
        (dropped(0, *[9] * 40), {}, 1, None),
        (dropped(0, 9), {"completeness": "drop_late"}, 1, None),
    ],
)
def test_late_rows_are_told_from_a_number_on(counts: Counts, more: Any, least: int, said: str | None) -> None:
    config = JobConfig.model_validate(job({"inputs": {"flights": TIMED}, **more}))
    told = reason(counts, config, least)
    if said is None:
        assert told == {}
    else:
        assert told[AlertKind.LATE_ROWS].startswith(said)
        assert told[AlertKind.LATE_ROWS].endswith("(inputs.flights.watermark_delay is 1 minute)")
    assert AlertKind.LATE_ROWS in INPUT_ALERTS
