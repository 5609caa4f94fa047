"""Which hops of a revision are done, from what the Job Service says."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from penstock.cli.watch import hops, written
from penstock.wire.jobs import HistoryEntry
from tests.unit.cli.test_waiting import job, sync, task

PLAN = {"kind": "rescale", "steps": ["stop_tasks", "redistribute", "commit"], "step": "redistribute"}
COMMITTED = "the State Syncer has committed revision 5 as generation 1"


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        pytest.param((job(running_revision=None), sync(), []), [], id="written"),
        pytest.param((job(running_revision=4), sync(sync_revision=4, plan=PLAN), []), [], id="an earlier plan"),
        pytest.param(
            (job(running_revision=4), sync(sync_revision=5, plan=PLAN, change_kind="rescale", step=1), []),
            [
                "the State Syncer plans a rescale: stop_tasks, redistribute, commit",
                "step 2 of 3: redistribute",
            ],
            id="a plan",
        ),
        pytest.param((job(), sync(), [task(revision=4)]), [COMMITTED], id="committed"),
        pytest.param(
            (job(), sync(), [task(), task(1, revision=None), task(2, expected=False)]),
            [COMMITTED, "1 of 2 tasks run revision 5"],
            id="some tasks run it",
        ),
    ],
)
def test_the_hops_that_are_done(seen: Any, expected: list[str]) -> None:
    assert list(hops(*seen, revision=5)) == expected


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
        f"revision 5 was written by ann to the layer oncall at {entry.at:%H:%M:%S} UTC, 0s ago: "
        "task_count: 2 -> 4: catch up"
    )
    assert written(5, None) == "revision 5 was written"
