"""Which hours of past days are read."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from services.auto_scaler.store.past import hours_around

BEFORE, AFTER = timedelta(minutes=31), timedelta(minutes=255)


@pytest.mark.parametrize(
    ("now", "hours"),
    [
        (datetime(2026, 1, 10, 12, 0, 30, tzinfo=UTC), {11, 12, 13, 14, 15, 16}),
        (datetime(2026, 1, 10, 12, 31, 0, tzinfo=UTC), {12, 13, 14, 15, 16}),
        (datetime(2026, 1, 10, 12, 30, 59, tzinfo=UTC), {11, 12, 13, 14, 15, 16}),
        (datetime(2026, 1, 10, 23, 0, tzinfo=UTC), {22, 23, 0, 1, 2, 3}),
        (datetime(2026, 1, 10, 23, 0, tzinfo=timezone(timedelta(hours=5, minutes=30))), {16, 17, 18, 19, 20, 21}),
    ],
)
def test_hours_that_have_a_minute_around_this_time_of_day(now: datetime, hours: set[int]) -> None:
    assert hours_around(now, BEFORE, AFTER) == hours


def test_a_span_of_a_day_has_every_hour() -> None:
    assert hours_around(datetime(2026, 1, 10, 12, tzinfo=UTC), BEFORE, timedelta(days=1)) == set(range(24))
