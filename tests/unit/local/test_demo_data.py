"""The demo's input, and the comparison of a result with the batch answer."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

from penstock.control.errors import TerminalError
from penstock.local.demo import check, data
from penstock.local.demo.run import definitions, empty
from penstock.local.demo.scenario import JOBS


def test_the_flights_are_all_there_in_order_of_time() -> None:
    flights = data.flights()
    assert len(flights) == 336_776
    assert tuple(flights.columns) == data.FLIGHT_COLUMNS
    assert flights["time_hour"].is_monotonic_increasing
    assert list(flights["flight_id"].iloc[[0, -1]]) == [0, 336_775]


def test_a_missing_value_is_null_and_whole_numbers_stay_whole() -> None:
    flights = data.flights()
    cancelled = flights[flights["dep_time"].isna()].head(1)
    flown = flights[flights["arr_delay"].notna()].head(1)
    (key, value), (_, other) = data.records(pd.concat([cancelled, flown]), "dest")
    row = json.loads(value)
    assert key == row["dest"]
    assert (row["dep_time"], row["dep_delay"], row["arr_delay"]) == (None, None, None)
    assert isinstance(json.loads(other)["arr_delay"], int)
    assert b"NaN" not in value + other


def test_records_without_a_key_have_none() -> None:
    assert [key for key, _ in data.records(data.weather().head(2), None)] == [None, None]


def test_a_closing_record_is_far_ahead_and_no_flight() -> None:
    key, value = data.closing_record(3)
    row = json.loads(value)
    assert key == row.pop("dest") == "~closing-3"
    assert row.pop("time_hour") > "2099"
    assert set(row.values()) == {None}


def test_planes_are_a_table_by_tail_number(tmp_path: Path) -> None:
    data.write_planes(tmp_path / "planes")
    planes = pd.read_parquet(tmp_path / "planes")
    assert len(planes) == planes["tailnum"].nunique() == 3_322


FLIGHTS = pd.DataFrame(
    {
        "flight_id": [0, 1, 2],
        "time_hour": ["2013-01-01T05:00:00Z"] * 3,
        "carrier": ["UA", "DL", "AA"],
        "flight": [1, 2, 3],
        "tailnum": ["N1", "N2", "N1"],
        "origin": ["EWR"] * 3,
        "dest": ["IAH", "IAH", "MIA"],
        "dep_time": pd.array([517, 533, None], dtype="Int64"),
        "dep_delay": pd.array([2, 4, None], dtype="Int64"),
        "arr_delay": pd.array([11, None, None], dtype="Int64"),
        "distance": [1400, 1400, 1089],
    }
)
PLANES = pd.DataFrame(
    {"tailnum": ["N1"], "year": pd.array([1999], dtype="Int64"), "manufacturer": ["AIRBUS"], "model": ["A320"]}
).assign(seats=180)
DELAYS = pd.DataFrame(
    {
        "carrier": ["DL", "UA"],
        "flights": [1, 1],
        "arrived": [0, 1],
        "total_arr_delay": pd.array([None, 11], dtype="Int64"),
        "mean_arr_delay": [None, 11.0],
        "worst_arr_delay": pd.array([None, 11], dtype="Int64"),
    }
)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three flights of two planes, one of them known."""
    monkeypatch.setattr(data, "flights", lambda: FLIGHTS)
    monkeypatch.setattr(data, "planes", lambda: PLANES)


@pytest.mark.usefixtures("small")
def test_the_same_rows_in_any_order_are_exact() -> None:
    comparison = check.compare("delays", DELAYS)
    assert (comparison.exact, comparison.rows, comparison.examples) == (True, 2, ())
    assert comparison.line() == "delays: 2 rows, exact"


@pytest.mark.usefixtures("small")
def test_a_missing_row_is_told() -> None:
    comparison = check.compare("delays", DELAYS.head(1))
    assert (comparison.exact, comparison.missing, comparison.unexpected) == (False, 1, 0)
    assert comparison.examples == ("missing ('UA', 1, 1, 11, 11.0, 11)",)
    assert comparison.line() == "delays: 1 rows, WRONG: 1 missing, 0 unexpected"


@pytest.mark.usefixtures("small")
def test_a_row_that_differs_is_missing_and_unexpected() -> None:
    comparison = check.compare("delays", DELAYS.assign(flights=[1, 3]))
    assert (comparison.exact, comparison.missing, comparison.unexpected) == (False, 1, 1)


@pytest.mark.usefixtures("small")
def test_nothing_at_all_is_all_missing() -> None:
    comparison = check.compare("delays", DELAYS.head(0))
    assert (comparison.exact, comparison.missing, comparison.rows) == (False, 2, 0)


@pytest.mark.usefixtures("small")
def test_rows_that_come_twice_are_unexpected() -> None:
    comparison = check.compare("delays", pd.concat([DELAYS, DELAYS.head(1)]))
    assert (comparison.exact, comparison.missing, comparison.unexpected) == (False, 0, 1)


@pytest.mark.usefixtures("small")
def test_a_cancelled_flight_is_not_enriched_and_an_unknown_plane_is_null() -> None:
    comparison = check.compare("enrich", pd.DataFrame(columns=check._columns("enrich")))
    assert comparison.missing == 2
    assert any("'AIRBUS', 'A320', 180, 14" in example for example in comparison.examples)
    assert any("None, None, None, None" in example for example in comparison.examples)


def test_every_job_of_the_demo_is_defined_and_checked() -> None:
    assert {path.stem for path in definitions().glob("*.json")} == set(JOBS) == set(check.EXPECTED)


def test_only_the_folder_of_an_earlier_demo_is_emptied(tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    empty(folder)
    (folder / "old").touch()
    empty(folder)
    assert not (folder / "old").exists()
    (tmp_path / "precious").touch()
    with pytest.raises(TerminalError, match="contains other files than a demo's"):
        empty(tmp_path)
    assert (tmp_path / "precious").exists()
