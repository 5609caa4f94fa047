"""From departures to the input of jobs."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.autoscaling.flights import Departures, departures, flight_traces, minute_of_year, smoothed

DAY = 1440
COLUMNS = {
    "month": np.array([1, 1, 2, 1]),
    "day": np.array([1, 2, 1, 3]),
    "dep_time": np.array([517.0, 2400.0, 15.0, np.nan]),
    "sched_dep_time": np.array([515, 2358, 2330, 600]),
    "origin": np.array(["EWR", "JFK", "JFK", "JFK"]),
    "carrier": np.array(["UA", "UA", "UA", "B6"]),
    "dest": np.array(["ORD", "ORD", "BOS", "BOS"]),
}


def test_a_flight_leaves_on_the_day_of_its_schedule_or_after_midnight() -> None:
    found = minute_of_year(COLUMNS)
    assert found[:3].tolist() == [5 * 60 + 17, 2 * DAY, 32 * DAY + 15]
    assert np.isnan(found[3])


def test_departures_of_the_busiest_first_without_cancelled_flights() -> None:
    found = [(one.kind, one.name, len(one.minutes)) for one in departures(COLUMNS)]
    assert found == [
        ("airport", "JFK", 2),
        ("airport", "EWR", 1),
        ("carrier", "UA", 3),
        ("destination", "ORD", 2),
        ("destination", "BOS", 1),
    ]


def test_a_departure_is_spread_over_half_an_hour() -> None:
    rate = smoothed(np.array([50, 100, 500]), first=50, length=300)
    assert (rate.sum(), rate.max(), int((rate > 0).sum())) == (pytest.approx(1.5, abs=0.1), pytest.approx(1 / 30), 46)


def test_the_peak_of_a_series_keeps_between_two_and_twenty_tasks_busy() -> None:
    every_minute = Departures("airport", "JFK", np.arange(365 * DAY))
    (found,) = flight_traces([every_minute], 3, 2, np.random.default_rng(1))
    assert (found.name, found.kind, len(found.rate)) == ("airport JFK", "airport", 2 * DAY)
    assert 16_000 <= found.rate.max() <= 160_000
