"""How the metrics of a job are shown: tables."""

from __future__ import annotations

import pytest

from penstock.cli.metrics import course, is_known, row, short, without_figures
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


def test_what_is_not_known_is_told_below_the_table() -> None:
    """Zero is known."""
    unknown = [MetricSeries(metric=name, unit="s", values=[None, None]) for name in ("lag_seconds", "batch_seconds")]
    zero = MetricSeries(metric="crashes", unit="", values=[None, 0.0])
    assert [is_known(each) for each in (*unknown, zero)] == [False, False, True]
    assert without_figures([*unknown, zero]) == "nothing is known of lag_seconds, batch_seconds"
    assert without_figures(unknown).startswith("nothing was measured in this time")


@pytest.mark.parametrize(("value", "text"), [(0.0, "0"), (0.12345, "0.123"), (12.345, "12.3"), (1e9, "1,000,000,000")])
def test_a_short_number(value: float, text: str) -> None:
    assert short(value) == text
