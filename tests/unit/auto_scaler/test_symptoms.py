"""Lag by the paper's equation 1, imbalance, lack of memory: tables, and unknown that stays unknown."""

from __future__ import annotations

import pytest

from services.auto_scaler.decide.symptoms import (
    TaskSample,
    detect,
    imbalance,
    largest_backlog_share,
    processed_bytes_per_second,
    time_lagged,
)


def task(index: int = 0, **values: float | int | bool | None) -> TaskSample:
    known = {"processed_rows_per_second": 100.0, "input_rows_per_second": 50.0, "input_bytes_per_second": 5000.0}
    return TaskSample.model_validate({"index": index, **known, **values})


LAGS = {
    "bytes over bytes a second": ([task(backlog_bytes=500_000)], 50.0, "bytes"),
    "of the task that lags most": ([task(0, backlog_bytes=500_000), task(1, backlog_bytes=0)], 50.0, "bytes"),
    "an idle task needs no rate": (
        [task(0, backlog_records=1000), task(1, backlog_records=0, processed_rows_per_second=None)],
        10.0,
        "records",
    ),
    "a task that stands still, and another that lags": (
        [task(0, backlog_records=1000), task(1, backlog_records=3000, processed_rows_per_second=0.0)],
        40.0,
        "records",
    ),
    "bytes before records": ([task(backlog_bytes=500_000, backlog_records=1)], 50.0, "bytes"),
    "records where bytes are unknown": ([task(backlog_records=1000)], 10.0, "records"),
    "records where one task's bytes are unknown": (
        [task(0, backlog_bytes=10, backlog_records=500), task(1, backlog_records=500)],
        5.0,
        "records",
    ),
    "records where the size of a row is unknown": (
        [task(backlog_bytes=500_000, backlog_records=2000, input_bytes_per_second=None)],
        20.0,
        "records",
    ),
    "nothing waits": ([task(backlog_records=0, processed_rows_per_second=None)], 0.0, "records"),
    "nothing waits, and no row came": ([task(backlog_bytes=0, input_rows_per_second=0.0)], 0.0, "bytes"),
    "no rate": ([task(backlog_records=1000, processed_rows_per_second=None)], None, None),
    "something waits and nothing is processed": ([task(backlog_records=9, processed_rows_per_second=0.0)], None, None),
    "a batch that does not end": ([task(0, backlog_records=100, lag_seconds=130.0), task(1)], 130.0, "age"),
    "a batch that takes somewhat longer": ([task(backlog_records=1000, lag_seconds=14.0)], 10.0, "records"),
    "a long batch of many rows": ([task(backlog_records=10_000, lag_seconds=140.0)], 100.0, "records"),
    "another task lags more": (
        [task(0, backlog_records=20_000), task(1, backlog_records=10, lag_seconds=130.0)],
        200.0,
        "records",
    ),
    "nothing waits, whatever was sampled": ([task(backlog_records=0, lag_seconds=90.0)], 0.0, "records"),
    "no rate, and a first batch": (
        [task(backlog_records=1000, processed_rows_per_second=None, lag_seconds=3.0)],
        3.0,
        "age",
    ),
    "one task's backlog is unknown": ([task(0, backlog_records=1000), task(1)], None, None),
    "nothing is known": ([TaskSample(index=0)], None, None),
    "no task": ([], None, None),
}


@pytest.mark.parametrize(("samples", "seconds", "basis"), LAGS.values(), ids=LAGS.keys())
def test_time_lagged(samples: list[TaskSample], seconds: float | None, basis: str | None) -> None:
    assert time_lagged(samples) == (seconds, basis)


@pytest.mark.parametrize(
    ("rates", "expected"),
    [
        ([100.0], 0.0),
        ([100.0, 100.0], 0.0),
        ([50.0, 150.0], 0.5),
        ([0.0, 200.0], 1.0),
        ([100.0, None], None),
        ([0.0, 0.0], None),
        ([], None),
    ],
)
def test_imbalance(rates: list[float | None], expected: float | None) -> None:
    samples = [task(index, processed_rows_per_second=rate) for index, rate in enumerate(rates)]
    assert imbalance(samples) == expected


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({}, 10_000.0),
        ({"input_rows_per_second": 0.0}, None),
        ({"input_rows_per_second": None}, None),
        ({"input_bytes_per_second": None}, None),
        ({"processed_rows_per_second": None}, None),
    ],
)
def test_processed_bytes_per_second(values: dict[str, float | None], expected: float | None) -> None:
    assert processed_bytes_per_second(task(**values)) == expected


SHARES = {
    "one task has most": ([task(0, backlog_records=90), task(1, backlog_records=10)], 0.9),
    "alike": ([task(0, backlog_records=5), task(1, backlog_records=5)], 0.5),
    "nothing waits": ([task(0, backlog_records=0), task(1, backlog_records=0)], None),
    "unknown of one": ([task(0, backlog_records=90), task(1)], None),
    "no task": ([], None),
}


@pytest.mark.parametrize(("samples", "share"), SHARES.values(), ids=SHARES.keys())
def test_largest_backlog_share(samples: list[TaskSample], share: float | None) -> None:
    assert largest_backlog_share(samples) == share


def test_what_all_tasks_get_through_is_known_once_each_is() -> None:
    both = [task(0), task(1, processed_rows_per_second=50.0)]
    assert detect(both, task_count=2).processed_rows_per_second == 150.0
    assert detect(both, task_count=3).processed_rows_per_second is None
    assert detect([task(0), TaskSample(index=1)], task_count=2).processed_rows_per_second is None


def test_a_task_that_had_no_row_is_not_slow() -> None:
    """Its speed is unknown: it is taken for that of the others."""
    rates = [90.0, 110.0, 0.0, 0.0]
    some = [task(index, processed_rows_per_second=rate) for index, rate in enumerate(rates)]
    assert detect(some, task_count=4).processed_rows_per_second == 400.0
    assert detect([task(processed_rows_per_second=0.0)], task_count=1).processed_rows_per_second is None


def test_a_task_without_a_sample_makes_lag_and_imbalance_unknown() -> None:
    found = detect([task(0, backlog_records=10**9), task(1, backlog_records=0)], task_count=3)
    assert (found.time_lagged_seconds, found.imbalance) == (None, None)
    assert (found.tasks_measured, found.tasks_expected) == (2, 3)


def test_samples_of_tasks_that_the_job_no_longer_has_do_not_count() -> None:
    found = detect([task(0, backlog_records=0), task(5, backlog_records=10**9)], task_count=1)
    assert found.time_lagged_seconds == 0.0


def test_lack_of_memory_is_seen_though_the_rest_is_unknown() -> None:
    found = detect([TaskSample(index=0, out_of_memory=True)], task_count=2)
    assert found.out_of_memory
    assert found.time_lagged_seconds is None


WORST = {
    "one is slow and behind": ([(100.0, 0), (20.0, 4000), (90.0, 90)], (1, 200.0, 1.0, 20.0 / 95.0)),
    "the first of them": ([(10.0, 1000), (100.0, 0)], (0, 100.0, 0.0, 0.1)),
    "nothing waits": ([(100.0, 0), (100.0, 0)], None),
    "a single task": ([(100.0, 500)], None),
    "one has waiting rows and no rate": ([(100.0, 500), (None, 500)], None),
    "one is not measured": ([(100.0, 500), (100.0, None)], None),
    "the others did nothing": ([(100.0, 500), (None, 0)], None),
}


@pytest.mark.parametrize(("measured", "expected"), WORST.values(), ids=WORST.keys())
def test_the_task_that_lags_most(
    measured: list[tuple[float | None, int | None]], expected: tuple[float, ...] | None
) -> None:
    samples = [
        TaskSample(index=index, processed_rows_per_second=rate, backlog_records=backlog)
        for index, (rate, backlog) in enumerate(measured)
    ]
    found = detect(samples, len(samples)).worst
    shown = None if found is None else (found.index, found.lag_seconds, found.others_lag_seconds, found.rate_share)
    assert shown == (None if expected is None else pytest.approx(expected))
