"""Which stages of a revision are done, from what the Job Service says."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from penstock.cli.watch import lines, written
from penstock.wire.jobs import HistoryEntry, JobView
from penstock.wire.overview import SyncView, TaskView
from penstock.wire.stages import stages
from tests.unit.cli.test_waiting import sync, task

PLAN = {"kind": "rescale", "steps": ["stop_tasks", "redistribute", "commit"], "step": "redistribute"}
RESTORE = PLAN | {"restore": {"number": 1, "savepoint": {"job": "old", "name": "v1"}}}
COMMITTED = "committed: runs revision 5 as generation 1"
NOT_YET = {"running_revision": 4, "converged": False, "state": "rescaling"}


def job(**facts: Any) -> JobView:
    usual = {"state": "synced", "revision": 5, "running_revision": 5, "generation": 1, "converged": True}
    about = {"job": "etl", "owner": "me", "restarts": 0, "created_at": datetime.now(UTC), "config": {}, "layers": []}
    return JobView.model_validate(about | usual | facts)


def planned(plan: Any, **facts: Any) -> SyncView:
    return sync(sync_revision=5, plan=plan, change_kind="rescale", state="rescaling", step=1, **facts)


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        pytest.param((job(running_revision=None, state="pending"), sync(), []), [], id="written"),
        pytest.param((job(**NOT_YET), sync(sync_revision=4, plan=PLAN), []), [], id="an earlier plan"),
        pytest.param(
            (job(**NOT_YET), planned(PLAN), []),
            ["planned: rescale change: stop tasks, redistribute, commit", "step 2 of 3: redistribute"],
            id="a plan",
        ),
        pytest.param(
            (job(**NOT_YET), planned(RESTORE), []),
            [
                "planned: restore of savepoint v1 of old: stop tasks, redistribute, commit",
                "step 2 of 3: redistribute",
            ],
            id="a restore is no rescale",
        ),
        pytest.param(
            (job(converged=False), sync(), [task(revision=4)]),
            [COMMITTED, "tasks run it: 0 of 1 tasks"],
            id="committed",
        ),
        pytest.param(
            (job(converged=False), sync(), [task(generation=1), task(1, revision=None), task(2, expected=False)]),
            [COMMITTED, "tasks run it: 1 of 2 tasks"],
            id="some tasks run it",
        ),
    ],
)
def test_the_hops_that_are_done(seen: tuple[JobView, SyncView, list[TaskView]], expected: list[str]) -> None:
    assert list(lines(*seen, revision=5)) == expected


def test_the_cli_says_a_hop_in_the_words_of_the_console() -> None:
    """Both take them from one function."""
    seen = job(converged=False), planned(RESTORE), [task(generation=1)]
    told = [stage.line for stage in stages(*seen)]
    assert set(list(lines(*seen, revision=5))[-2:]) <= set(told)


def test_the_first_hop_says_who_wrote_what_and_why() -> None:
    entry = HistoryEntry(
        id=1,
        job="etl",
        layer="oncall",
        version=1,
        revision=5,
        action="patch",
        author="ann",
        reason="catch up",
        at=datetime.now(UTC),
        old={"task_count": 2},
        new={"task_count": 4},
        expires_at=None,
    )
    assert written(5, entry) == (
        f"written: revision 5, oncall by ann at {entry.at:%H:%M:%S} UTC, 0s ago: task_count: 2 -> 4: catch up"
    )
    assert written(5, None) == "written: revision 5"
