"""Pictures of series."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from penstock.wire.overview import JobSeries, MetricSeries
from services.console.views.charts import HEIGHT, WIDTH, charts, nice_top, paths

SINCE = datetime(2026, 11, 25, 11, 0, tzinfo=UTC)


def series(*, hours: int = 1, **values: list[float | None]) -> JobSeries:
    found = [MetricSeries(metric=name, unit="s", values=each) for name, each in values.items()]
    until = SINCE + timedelta(hours=hours)
    return JobSeries(job="etl", since=SINCE, until=until, step_seconds=60, series=found)


@pytest.mark.parametrize(
    ("highest", "top"), [(0, 1), (0.3, 0.5), (1, 1), (2.2, 2.5), (30, 50), (501, 1000), (1e6, 1e6)]
)
def test_the_top_is_the_next_round_number(highest: float, top: float) -> None:
    assert nice_top(highest) == pytest.approx(top)


def test_what_is_unknown_is_a_gap_and_not_zero() -> None:
    first, second, alone = paths([1.0, 2.0, None, None, 1.0, 1.0, None, 4.0], 4.0)
    assert len(first.split()) == len(second.split()) == 2
    assert first.startswith("0.0,")
    assert alone.endswith(f"{WIDTH}.0,8.0")
    assert len(alone.split()) == 2, "a single value is a stroke that can be seen"


def test_points_are_within_the_picture() -> None:
    for path in paths([float(value) for value in range(100)], 50.0):
        for point in path.split():
            x, y = (float(each) for each in point.split(","))
            assert 0 <= x <= WIDTH
            assert 0 <= y <= HEIGHT


def test_the_slo_is_a_line_where_the_lag_comes_near_it() -> None:
    (near,) = charts(series(lag_seconds=[30.0, 80.0]), 90.0)
    (far,) = charts(series(lag_seconds=[0.5, 1.0]), 90.0)
    assert near.target is not None
    assert 0 < near.target < HEIGHT
    assert far.target is None
    assert far.target_label == "SLO 90 s"


def test_a_chart_of_which_nothing_is_known_says_so() -> None:
    (chart,) = charts(series(lag_seconds=[None, None]), 90.0)
    assert not chart.is_known
    assert (chart.lines[0].paths, chart.lines[0].last) == ((), "–")


def test_days_have_dates() -> None:
    (chart,) = charts(series(hours=48, lag_seconds=[1.0]), 90.0)
    assert (chart.begins, chart.ends) == ("11-25 11:00", "11-27 11:00 UTC")
