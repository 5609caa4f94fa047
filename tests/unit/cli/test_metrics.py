"""How the metrics of a job are shown: tables."""

from __future__ import annotations

import pytest

from penstock.cli.metrics import course, row, short
from penstock.wire.overview import MetricSeries


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([], ""),
        ([None, None], "··"),
        ([0.0, 0.0], "▁▁"),
        ([0.0, 4.0, None, 8.0], "▁▅·█"),
        ([-1.0, 8.0], "▁█"),
    ],
)
def test_a_course_shows_values_by_the_greatest_and_gaps(values: list[float | None], expected: str) -> None:
    assert course(values) == expected


def test_a_row_has_the_last_known_value_and_what_all_of_them_are_like() -> None:
    series = MetricSeries(metric="lag_seconds", unit="s", values=[1.0, None, 2000.0, 0.0123, None])
    assert row(series) == ("lag_seconds", "s", "0.0123", "0.0123", "667", "2,000", "▁·█▁·")
    unknown = MetricSeries(metric="lag_seconds", unit="s", values=[None])
    assert row(unknown) == ("lag_seconds", "s", None, None, None, None, "·")


@pytest.mark.parametrize(("value", "text"), [(0.0, "0"), (0.12345, "0.123"), (12.345, "12.3"), (1e9, "1,000,000,000")])
def test_a_short_number(value: float, text: str) -> None:
    assert short(value) == text
