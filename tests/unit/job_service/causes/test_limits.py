"""A limit of what a task reads: it is seen by a full batch, and explains why the task works little."""

from __future__ import annotations

import pytest

from penstock.model.causes import CauseKind
from services.job_service.causes.rank import causes_of
from tests.support.job_service.causes import BUSY, facts, leaf, task

AT_ITS_LIMIT = BUSY | {"backlog_records": 787, "input_rows_per_second": 3.9, "processed_rows_per_second": 5.0}
AT_ITS_LIMIT |= {"busy_share": 0.5}
"""What Spark measures of a task with 20 records per trigger of 5 s."""


@pytest.mark.parametrize(("rows", "took", "is_limit"), [(20, 0.2, True), (20, 9.0, False), (9, 0.2, False)])
def test_a_full_batch_shows_the_limit_before_the_minute_does(rows: int, took: float, is_limit: bool) -> None:
    """Rows have just come, so the rate of the last minute is small. A batch that took long is slow, not limited."""
    known = facts(
        [task(progress=AT_ITS_LIMIT | {"input_rows_per_second": 1.0, "input_rows": rows, "batch_seconds": took})],
        settings=[leaf("max_records_per_trigger", 20)],
        config={"trigger_interval_seconds": 5.0},
    )
    assert (CauseKind.HELD_BY_LAYER in {each.kind for each in causes_of(known)}) is is_limit


@pytest.mark.parametrize(("limit", "is_kafka_slow"), [(20, False), (2_000, True)])
def test_a_task_that_reads_all_it_may_does_not_wait_for_kafka(limit: int, is_kafka_slow: bool) -> None:
    """It works 5 % of the time, as its limit has it."""
    known = facts(
        [task(progress=AT_ITS_LIMIT | {"busy_share": 0.05})],
        settings=[leaf("max_records_per_trigger", limit)],
        config={"trigger_interval_seconds": 5.0},
    )
    assert (CauseKind.INPUT_ERROR in {each.kind for each in causes_of(known)}) is is_kafka_slow


def test_a_full_batch_is_told_without_a_rate() -> None:
    full = AT_ITS_LIMIT | {"input_rows_per_second": None, "input_rows": 20, "batch_seconds": 0.2}
    known = facts(
        [task(progress=full)],
        settings=[leaf("max_records_per_trigger", 20)],
        config={"trigger_interval_seconds": 5.0},
    )
    [held] = [each for each in causes_of(known) if each.kind is CauseKind.HELD_BY_LAYER]
    assert "task 0 reads all that it may, and 787 rows wait for it" in held.evidence
