"""How far a job is, from what the Job Service says: tables."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.cli.waiting import Reached, has_worked, news, reached
from penstock.wire.jobs import JobView
from penstock.wire.overview import SyncView, TaskView

READ: dict[str, Any] = {"batch_id": 0, "input_rows": 7, "offsets": {"t": {"0": 7}}}
OF_STREAM: dict[str, Any] = {"offsets": {}, "backlog_records": None}
NOTHING_TO_READ: dict[str, Any] = {"input_rows": 0, "backlog_records": 0}


def job(**facts: Any) -> JobView:
    usual = {"state": "synced", "revision": 5, "running_revision": 5, "generation": 1, "converged": True}
    whole = {"created_at": "2026-01-01T00:00:00Z", "config": {"inputs": {"t": {}}}, "layers": []}
    return JobView.model_validate({"job": "etl", "owner": "me", "restarts": 0, **usual, **whole, **facts})


def sync(**facts: Any) -> SyncView:
    known = {name: None for name in SyncView.model_fields if name != "generations"}
    return SyncView.model_validate({**known, "job": "etl", "state": "synced", "expected_revision": 5, **facts})


def task(index: int = 0, **facts: Any) -> TaskView:
    usual = {
        "shard": 1,
        "expected": True,
        "owner": "tm",
        "state": "running",
        "container": "tm",
        "revision": 5,
        "progress": READ,
    }
    return TaskView.model_validate({"task": f"etl/{index}", "index": index, **usual, **facts})


_STARTING = "starting (its Spark host plans the query and loads its state)"

OLD = task(state="crashed", crashes=7, error="a typing error", revision=4, progress=None)


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        pytest.param(
            (job(running_revision=None, state="waiting"), sync(state="waiting", detail="makes the output"), []),
            Reached("etl is waiting: makes the output"),
            id="not committed",
        ),
        pytest.param(
            (job(running_revision=4), sync(state="failed", sync_revision=5, detail="no room"), []),
            Reached("etl is failed: no room; it is tried again", failed=True),
            id="failed",
        ),
        pytest.param(
            (job(running_revision=4), sync(state="quarantined", sync_revision=5, detail="no room"), []),
            Reached("etl is quarantined: no room; `penstock release etl` tries it again", failed=True),
            id="quarantined",
        ),
        pytest.param(
            (job(running_revision=4, state="pending"), sync(state="failed", sync_revision=4), []),
            Reached("etl is failed"),
            id="failed before this write",
        ),
        pytest.param(
            (job(converged=False), sync(), [task(), task(1, state="starting", progress=None)]),
            Reached(f"etl: 1 of 2 tasks run, etl/1 {_STARTING}"),
            id="a task starts",
        ),
        pytest.param(
            (job(converged=False), sync(), [task(), task(1, state="unknown", container=None, progress=None)]),
            Reached(
                "etl: 1 of 2 tasks run, etl/1 given to tm, which has not reported it yet (a Spark host may have to "
                "start there first)"
            ),
            id="a task that no container knows",
        ),
        pytest.param(
            (job(converged=False), sync(), [task(state="unknown", owner=None, container=None, progress=None)]),
            Reached("etl: 0 of 1 tasks run, etl/0 not placed yet (no container has its shard)"),
            id="a task whose shard nobody has",
        ),
        pytest.param(
            (job(converged=False), sync(), [task(state="unknown")]),
            Reached("etl: 0 of 1 tasks run, etl/0 without a report of its container"),
            id="a task that was reported, and of which nothing is known now",
        ),
        pytest.param(
            (job(running_revision=4, state="pending"), sync(state="pending", sync_revision=4), []),
            Reached("etl is pending: waits for the State Syncer"),
            id="nobody has looked at it yet",
        ),
        pytest.param(
            (job(converged=False), sync(), [task(), task(1, state="crashed", crashes=1, error="no table")]),
            Reached("etl/1 crashed: no table (it is started again)"),
            id="a first crash",
        ),
        pytest.param(
            (
                job(converged=False),
                sync(),
                [task(), task(1, state="starting", progress=None, crashes=1, error="host h1 ended: killed")],
            ),
            Reached(
                "etl: 1 of 2 tasks run, etl/1 starting again after a crash",
                before="etl/1 crashed: host h1 ended: killed (it is started again)",
            ),
            id="it starts again after a crash",
        ),
        pytest.param(
            (job(converged=False), sync(), [task(), task(1, progress=None, crashes=1, error="host h1 ended: killed")]),
            Reached("etl: 1 of 2 tasks run, etl/1 in the first batch after a crash"),
            id="it runs again after a crash, and has finished no batch",
        ),
        pytest.param(
            (
                job(converged=False, health="crashing"),
                sync(),
                [task(n, state="crashed", crashes=3, error="no table") for n in (0, 1)],
            ),
            Reached("etl/0 crashed: no table", failed=True),
            id="crashes again",
        ),
        pytest.param(
            (job(converged=False, health="crashing"), sync(), [task(state="starting", crashes=1, error="no table")]),
            Reached("etl/0 crashed: no table", failed=True),
            id="runs for a while before each crash",
        ),
        pytest.param(
            (job(converged=False, health="crashing"), sync(), [OLD, task(1, state="starting", progress=None)]),
            Reached(f"etl: 0 of 2 tasks run, etl/0 crashed, etl/1 {_STARTING}"),
            id="it crashed before this write",
        ),
        pytest.param(
            (job(converged=False, health="crashing"), sync(), [OLD, task(1, state="crashed", crashes=1, error="x")]),
            Reached("etl/1 crashed: x (it is started again)"),
            id="one task crashed again and again before this write, another once since",
        ),
        pytest.param(
            (job(running_revision=6), sync(rejected={"revision": 5, "error": "no table"}), [task(revision=6)]),
            Reached("etl: its package is not healthy: no table", failed=True),
            id="what was written is rolled back",
        ),
        pytest.param(
            (job(), sync(rejected={"revision": 4, "error": "no table"}), [task()]),
            Reached("etl runs revision 5: 1 task, the first batch is done", done=True),
            id="a package that was rolled back before this write",
        ),
        pytest.param(
            (job(), sync(), [task(), task(1, crashes=1, error="kafka was away")]),
            Reached("etl runs revision 5: 2 tasks, the first batch is done", done=True),
            id="it runs again after a crash",
        ),
        pytest.param(
            (job(), sync(), [task(progress=None), task(1, progress=None)]),
            Reached("etl runs revision 5: etl/0 and 1 more in the first batch"),
            id="first batch",
        ),
        pytest.param(
            (job(), sync(), [task(progress=NOTHING_TO_READ)]),
            Reached("etl runs revision 5: 1 task, there are no rows to read yet", done=True),
            id="an empty topic",
        ),
        *(
            pytest.param(
                (job(config={"streams": {"s": {}}}), sync(), [task(progress={**OF_STREAM, **progress})]),
                Reached(f"etl runs revision 5: {told}", done="1 task, " in told),
                id=f"a stream: {name}",
            )
            for name, progress, told in (
                ("rows flow", {"batch_id": 0, "input_rows": 4}, "1 task, the first batch is done"),
                ("rows flowed", {"batch_id": 1, "input_rows": 0}, "1 task, the first batch is done"),
                ("an empty folder", {"batch_id": 0, "input_rows": 0}, "1 task, there are no rows to read yet"),
                ("nothing is known", {}, "etl/0 in the first batch"),
            )
        ),
        pytest.param(
            (job(state="stopped", converged=False), sync(state="stopped"), [task(expected=False)]),
            Reached("etl stops: etl/0"),
            id="stopping",
        ),
        pytest.param(
            (job(state="stopped"), sync(state="stopped"), []), Reached("etl is stopped", done=True), id="stopped"
        ),
    ],
)
def test_how_far_a_job_is(seen: tuple[JobView, SyncView, list[TaskView]], expected: Reached) -> None:
    assert reached(*seen, revision=5) == expected


def test_a_crash_is_told_once_and_is_no_step_that_goes_on() -> None:
    """1. A task crashed. 2. It starts again: the crash, which is over, is not told again. 3. It crashes otherwise."""
    said: set[str] = set()
    crash, starts = "etl/1 crashed: killed (it is started again)", "etl: 0 of 1 tasks run, etl/1 starting again"
    assert news(Reached(crash), said) == [crash]
    assert news(Reached(starts, before=crash), said) == [starts]
    assert news(Reached(starts, before=crash), said) == []
    assert news(Reached(starts, before="etl/1 crashed: no table"), said) == ["etl/1 crashed: no table"]
    assert news(Reached("etl/1 crashed: no table", failed=True), said) == []


@pytest.mark.parametrize(
    ("progress", "expected"),
    [
        (None, False),
        ({"batch_id": 0, "input_rows": 0, "backlog_records": 12}, False),
        ({"batch_id": 0, "input_rows": 0, "backlog_records": None}, False),
        ({"batch_id": 0, "input_rows": 3, "backlog_records": 12}, True),
        ({"batch_id": 1, "input_rows": 0}, True),
        (NOTHING_TO_READ, True),
    ],
)
def test_the_first_batch_is_done_or_there_is_nothing_to_read(progress: Any, expected: bool) -> None:
    assert has_worked(progress, has_backlog=True) is expected
