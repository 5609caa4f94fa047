"""The rate of one task from the progress records of a staging run."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.spark.measure.rate_of_run import is_at_the_end, profile_of


def record(rows: int, millis: int, behind: int = 100, **more: Any) -> dict[str, Any]:
    offsets = {
        "startOffset": {"t": {"0": 0}},
        "endOffset": {"t": {"0": rows}},
        "latestOffset": {"t": {"0": rows + behind}},
    }
    return {
        "batchId": 0,
        "numInputRows": rows,
        "batchDuration": millis,
        "sources": [{**offsets, "numInputRows": rows}],
        **more,
    }


STATE = {"stateOperators": [{"numRowsTotal": 5, "memoryUsedBytes": 700}]}
RUNS: dict[str, tuple[list[dict[str, Any]], tuple[int, int, float | None]]] = {
    "no batch": ([], (0, 0, None)),
    "a batch without rows": ([record(0, 50)], (0, 0, None)),
    "one batch counts, cold as it is": ([record(100, 2000)], (100, 1, 50.0)),
    "the first of two does not": ([record(100, 2000), record(100, 1000)], (100, 1, 100.0)),
    "the first two of many do not": (
        [record(100, 4000), record(100, 2000), record(100, 1000), record(300, 1000)],
        (400, 2, 200.0),
    ),
    "batches without rows say nothing": ([record(100, 1000), record(0, 10), record(100, 500)], (100, 1, 200.0)),
    "nor does a record that is not whole": ([{"batchId": 1}, record(100, 1000)], (100, 1, 100.0)),
}


@pytest.mark.parametrize(("records", "expected"), RUNS.values(), ids=RUNS.keys())
def test_what_a_run_shows(records: list[dict[str, Any]], expected: tuple[int, int, float | None]) -> None:
    found = profile_of(records, read_all=False, key_groups=3)
    assert (found.rows, found.batches, found.rows_per_second) == expected
    assert (found.key_groups, found.read_all, found.state_rows) == (3, False, None)


def test_nine_batches_in_ten_were_faster_and_the_state_is_that_of_the_end() -> None:
    cold, slow, usual = record(1, 10), record(100, 2000), record(100, 1000)
    found = profile_of([cold, cold, slow, slow, *[usual] * 18, usual | STATE], read_all=True, key_groups=1)
    assert found.low_rows_per_second == 100.0
    assert found.rows_per_second == pytest.approx(91.304, abs=0.001)
    assert (found.state_rows, found.state_memory_bytes, found.read_all) == (5, 700, True)


@pytest.mark.parametrize(("behind", "at_the_end"), [(0, True), (3, False)])
def test_the_end_of_the_inputs(behind: int, at_the_end: bool) -> None:
    assert is_at_the_end(record(10, 10, behind)) is at_the_end
    assert not is_at_the_end({"sources": [{}]})
