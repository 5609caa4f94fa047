"""The contract of `read_job_minutes`: a minute is the same before and after its hour is rolled."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import Engine, text

from penstock.model.job_metrics import HOUR, METRICS_BY_NAME, MINUTE, Values
from penstock.model.reports import ErrorClass
from penstock.store.engine import snapshot, transaction
from penstock.store.job_minutes import read_job_minutes
from services.task_service.store.hours import HourStore
from tests.support.store.running import commit_job

NOW = datetime.now(UTC)
THIS_HOUR = NOW.replace(minute=0, second=0, microsecond=0)
FIRST = THIS_HOUR - 3 * HOUR
NO_ERRORS = {f"errors_{each}": 0 for each in ErrorClass}
Roll = Callable[[], None]


def run(engine: Engine, statement: str, **values: Any) -> list[Any]:
    with transaction(engine) as connection:
        found = connection.execute(text(statement), values)
        return list(found.all()) if found.returns_rows else []


def measure(engine: Engine, minute: datetime, index: int = 0, job: str = "j", **measured: Any) -> None:
    """A sample of a task; what is not given is not known. The first day of a new store has room for those before it."""
    values = {"job": job, "index": index, "minute": minute, **measured}
    names = ", ".join(values)
    run(engine, f"INSERT INTO task_metrics ({names}) VALUES ({', '.join(f':{name}' for name in values)})", **values)


def begin(engine: Engine, hour: datetime = FIRST) -> None:
    """Nothing from this hour on is rolled."""
    run(engine, "UPDATE rolled SET hour = :hour, job = ''", hour=hour)


def read(engine: Engine, name: str, since: datetime, until: datetime, job: str = "j") -> Values:
    with snapshot(engine) as connection:
        found = read_job_minutes(connection, job, since, until, [METRICS_BY_NAME[name]])
    assert found.since == since
    return found.values[name]


@pytest.fixture(params=["sampled", "rolled"])
def roll(engine: Engine, request: pytest.FixtureRequest) -> Roll:
    """Rolls all hours that are over; does nothing in the form `sampled`."""
    commit_job(engine, "j", task_count=2)
    begin(engine)

    def perform() -> None:
        while request.param == "rolled" and HourStore(engine).roll() is not None:
            pass

    return perform


@pytest.mark.parametrize(
    ("metric", "samples", "value"),
    [
        ("backlog_records", [{"backlog_records": 3}, {"backlog_records": 4}], 7.0),
        ("backlog_records", [{"backlog_records": 0}, {"backlog_records": 0}], 0.0),
        ("backlog_records", [{"backlog_records": 3}, {}], None),
        ("backlog_records", [{"backlog_records": 3, "task_count": 2}], None),
        ("backlog_records", [{"backlog_records": 3, "task_count": 1}], 3.0),
        ("backlog_records", [{"backlog_records": 2**62}, {"backlog_records": 2**62}], 2.0**63),
        ("processed_rows_per_second", [{"processed_rows_per_second": 5.0}, {"processed_rows_per_second": 0.0}], None),
        ("processed_rows_per_second", [{"processed_rows_per_second": 5.0}, {"processed_rows_per_second": 1.0}], 6.0),
        ("busy_share", [{"busy_share": 0.5}, {"busy_share": 1.0}], 0.75),
        ("lag_seconds", [{"lag_seconds": 2.5}, {"lag_seconds": None}], 2.5),
        ("lag_seconds", [{}, {}], None),
        ("input_rows_per_second", [{"input_rows_per_second": 1e300}, {"input_rows_per_second": 1.0}], None),
        ("input_rows_per_second", [{"input_rows_per_second": 1e-300}, {"input_rows_per_second": 0.0}], 0.0),
        ("input_rows_per_second", [{"input_rows_per_second": float("nan")}, {"input_rows_per_second": 1.0}], None),
        ("tasks_running", [{"running": True, "task_count": 3}, {"running": False, "task_count": 3}], 1.0),
        ("tasks_running", [{"running": True}, {"running": None}], None),
        ("crashes", [{"crashes": 0}, {"crashes": 3}], 3.0),
        ("out_of_memory", [{"out_of_memory": True}, {"out_of_memory": False}], 1.0),
        ("key_group_backlog_records", [{"key_group_backlog_records": 3}, {"key_group_backlog_records": 4}], 4.0),
        ("key_group_backlog_records", [{}, {}], None),
        ("errors_host", [{"errors_host": 2}, {"errors_host": 1}], 3.0),
        ("errors_host", [{"errors_host": 2}, {}], None),
        ("restarts", [{**NO_ERRORS, "errors_host": 2}, {**NO_ERRORS, "errors_other": 1}], 3.0),
        ("restarts", [NO_ERRORS, {"errors_other": 1}], None),
    ],
)
def test_what_the_tasks_of_a_job_make_of_a_minute(
    engine: Engine, roll: Roll, metric: str, samples: list[dict[str, Any]], value: float | None
) -> None:
    """The minutes around it were not measured."""
    for index, sample in enumerate(samples):
        measure(engine, FIRST + 30 * MINUTE, index, **sample)
    roll()
    around = (FIRST + 29 * MINUTE, FIRST + 32 * MINUTE)
    assert read(engine, metric, *around) == (None, pytest.approx(value) if value is not None else None, None)


def test_minutes_of_rolled_and_present_hours_are_one_series(engine: Engine, roll: Roll) -> None:
    """Hours without samples, of another job too, and both ends of an hour."""
    minutes = [FIRST, FIRST + HOUR - MINUTE, FIRST + HOUR, FIRST + 2 * HOUR + MINUTE, THIS_HOUR]
    for number, minute in enumerate(minutes):
        measure(engine, minute, batch_seconds=float(number))
        measure(engine, minute, job="other", batch_seconds=99.0)
    roll()
    found = read(engine, "batch_seconds", FIRST, THIS_HOUR + MINUTE)
    assert {at: value for at, value in enumerate(found) if value is not None} == {0: 0, 59: 1, 60: 2, 121: 3, 180: 4}
    assert len(found) == 181
    assert read(engine, "batch_seconds", FIRST + 59 * MINUTE, FIRST + 61 * MINUTE) == (1.0, 2.0)
    assert read(engine, "batch_seconds", FIRST, FIRST) == ()
    assert read(engine, "batch_seconds", FIRST - timedelta(days=1), FIRST - HOUR) == (None,) * 23 * 60


def test_a_job_of_which_nothing_is_known_has_no_known_minute(engine: Engine, roll: Roll) -> None:
    roll()
    assert read(engine, "lag_seconds", FIRST, FIRST + 2 * MINUTE) == (None, None)


def test_of_rolled_hours_only_those_of_a_time_of_day_may_be_read(engine: Engine) -> None:
    commit_job(engine, "j", task_count=1)
    begin(engine)
    for hour in range(3):
        measure(engine, FIRST + hour * HOUR, lag_seconds=float(hour))
    while HourStore(engine).roll() is not None:
        pass
    with snapshot(engine) as connection:
        of_day = {(FIRST + HOUR).hour}
        metric = METRICS_BY_NAME["lag_seconds"]
        found = read_job_minutes(connection, "j", FIRST, THIS_HOUR, [metric], hours_of_day=of_day)
    assert [value for value in found.values["lag_seconds"] if value is not None] == [1.0]
