"""Series of minutes and of longer steps: tables."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from penstock.model.job_metrics import METRICS_BY_NAME, MINUTE, in_steps, minute_of, series

START = datetime(2026, 1, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("minutes", "runs", "expected"),
    [
        (3, [], (None, None, None)),
        (0, [(0, [1.0])], ()),
        (-5, [(0, [1.0])], ()),
        (3, [(1, [5.0])], (None, 5.0, None)),
        (3, [(-1, [1.0, 2.0])], (2.0, None, None)),
        (3, [(2, [1.0, 2.0])], (None, None, 1.0)),
        (3, [(0, [1.0, 2.0, 3.0]), (1, [9.0])], (1.0, 9.0, 3.0)),
        (3, [(0, [0.0, None, float("nan")])], (0.0, None, None)),
        (1, [(0, [float("inf")])], (None,)),
    ],
)
def test_a_series_has_every_minute_and_what_is_not_known_is_none(
    minutes: int, runs: list[tuple[int, list[float | None]]], expected: tuple[float | None, ...]
) -> None:
    found = [(START + at * MINUTE, values) for at, values in runs]
    assert series(START, START + minutes * MINUTE, found) == expected


@pytest.mark.parametrize(
    ("metric", "expected"),
    [
        ("input_rows_per_second", [2.0, None, 5.0]),
        ("busy_share", [2.0, None, 5.0]),
        ("lag_seconds", [3.0, None, 5.0]),
        ("tasks_running", [3.0, None, 5.0]),
        ("restarts", [4.0, None, 5.0]),
    ],
)
def test_a_step_is_made_of_its_known_minutes(metric: str, expected: list[float | None]) -> None:
    assert in_steps(METRICS_BY_NAME[metric], (1.0, 3.0, None, None, 5.0), 2) == expected


def test_a_minute_is_one_of_utc() -> None:
    moment = datetime(2026, 1, 1, 12, 30, 59, 7, tzinfo=timezone(timedelta(hours=5, minutes=30)))
    assert minute_of(moment) == datetime(2026, 1, 1, 7, 0, tzinfo=UTC)
