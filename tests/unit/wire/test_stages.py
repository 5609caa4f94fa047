"""The way of a revision: a table of states of a job."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from penstock.wire.jobs import HistoryEntry, JobView, LayerVersion
from penstock.wire.overview import SyncView, TaskView
from penstock.wire.stages import Progress, change_in_words, plan_steps, stages

NOW = datetime(2026, 11, 25, tzinfo=UTC)


def job(**known: Any) -> JobView:
    layers = [LayerVersion(layer="base", version=1, revision=5, author="ann", written_at=NOW)]
    facts: dict[str, Any] = {
        "state": "synced",
        "revision": 5,
        "running_revision": 5,
        "generation": 1,
        "converged": True,
    }
    return JobView(job="etl", owner="ann", restarts=0, created_at=NOW, config={}, layers=layers, **facts | known)


def sync(**known: Any) -> SyncView:
    return SyncView.model_validate(dict.fromkeys(SyncView.model_fields) | {"job": "etl", "state": "synced"} | known)


def task(index: int, revision: int = 5, **known: Any) -> TaskView:
    facts: dict[str, Any] = {"shard": 1, "expected": True, "owner": "c", "state": "running", "generation": 1}
    return TaskView(task=f"etl/{index}", index=index, revision=revision, **facts | known)


SYNC = {"expected_revision": 5, "generations": []}
AT = {"committed_at": NOW}


@pytest.mark.parametrize(
    ("of_job", "of_sync", "expected"),
    [
        ({}, AT, "done done done done done"),
        ({"converged": False}, AT, "done done done now waits"),
        ({"running_revision": 4, "state": "pending", "converged": False}, {}, "done now waits waits waits"),
        ({"running_revision": 4, "state": "queued", "converged": False}, {}, "done now waits waits waits"),
        ({"running_revision": 4, "state": "rescaling", "converged": False}, {}, "done done now waits waits"),
        ({"running_revision": 4, "state": "quarantined", "converged": False}, {}, "done failed waits waits waits"),
        ({"running_revision": None, "state": "failed", "converged": False}, {}, "done failed waits waits waits"),
    ],
)
def test_how_far_each_stage_is(of_job: dict[str, Any], of_sync: dict[str, Any], expected: str) -> None:
    found = stages(job(**of_job), sync(**SYNC | of_sync), [task(0), task(1)])
    assert " ".join(stage.progress for stage in found) == expected
    assert [stage.title for stage in found] == ["written", "planned", "committed", "tasks run it", "converged"]


def test_the_stages_say_who_when_and_how_many() -> None:
    tasks = [task(0), task(1, revision=4), task(2, state="crashed"), task(7, expected=False)]
    written, _, committed, run, _ = stages(job(converged=False), sync(**SYNC | AT), tasks)
    assert (written.text, written.at) == ("revision 5, base by ann", NOW)
    assert (committed.line, committed.at) == ("committed: runs revision 5 as generation 1", NOW)
    assert run.text == "1 of 3 tasks"


def test_an_earlier_revision_has_its_own_way() -> None:
    facts = {"running_revision": 4, "state": "pending", "converged": False}
    assert [stage.progress for stage in stages(job(**facts), sync(**SYNC), [], 4)][:3] == ["done", "done", "done"]
    assert stages(job(**facts), sync(**SYNC), [], 4)[0].text == "revision 4"


@pytest.mark.parametrize(
    ("state", "more"),
    [
        ("pending", ""),
        ("rescaling", " (revision 4 is rescaling)"),
        ("restoring", " (revision 4 is restoring)"),
        ("deleting", ""),
    ],
)
def test_the_plan_of_an_earlier_revision_is_not_that_of_a_newer_one(state: str, more: str) -> None:
    facts = {"running_revision": 3, "state": state, "converged": False}
    found = stages(job(**facts), sync(**SYNC | {"state": state, "sync_revision": 4}), [])
    assert [stage.progress for stage in found] == ["done", "now", "waits", "waits", "waits"]
    assert found[1].text == f"waits for the State Syncer{more}"


@pytest.mark.parametrize(
    ("savepoint", "words"),
    [
        (None, "rescale change"),
        ({"job": "etl", "name": "v1"}, "restore of savepoint v1"),
        ({"job": "old", "name": "v1"}, "restore of savepoint v1 of old"),
    ],
)
def test_a_restore_is_told_as_one(savepoint: Any, words: str) -> None:
    plan = {"kind": "rescale", "restore": None if savepoint is None else {"savepoint": savepoint}}
    assert change_in_words(sync(**SYNC | {"plan": plan, "change_kind": "rescale"})) == words


def test_a_write_to_no_layer_has_its_author_from_the_history() -> None:
    entry = HistoryEntry(
        id=1, job="etl", layer=None, version=None, revision=6, action="restore", author="bob", reason="", at=NOW,
        old=None, new=None, expires_at=None,
    )  # fmt: skip
    written, *_ = stages(job(revision=6), sync(**SYNC), [], entry=entry)
    assert (written.text, written.at) == ("revision 6 by bob", NOW)
    assert stages(job(revision=6), sync(**SYNC), [])[0].text == "revision 6"


def test_what_is_not_committed_still_runs_the_revision_before() -> None:
    found = stages(job(running_revision=4, state="rescaling", converged=False), sync(**SYNC), [])
    assert found[2].line == "committed: still runs revision 4 as generation 1"
    assert stages(job(running_revision=None, state="pending", converged=False), sync(**SYNC), [])[2].text == "never"


def test_a_failure_says_why() -> None:
    facts = {"running_revision": 4, "state": "quarantined", "converged": False, "detail": "old"}
    _, planned, *_ = stages(job(**facts), sync(**SYNC | {"detail": "no room"}), [])
    assert planned.text == "no room"


def test_the_steps_of_a_plan_show_which_is_under_way() -> None:
    found = plan_steps(sync(**SYNC | {"plan": {"steps": ["stop", "seal", {"name": "commit"}]}, "step": 1}))
    assert [(each.name, each.progress) for each in found] == [
        ("stop", Progress.DONE),
        ("seal", Progress.NOW),
        ("commit", Progress.WAITS),
    ]
    assert plan_steps(sync(**SYNC)) == []


def test_a_task_that_nobody_reports_is_told_as_unknown() -> None:
    found = stages(job(converged=False), sync(**SYNC | AT), [task(0), task(1, state="unknown")])
    assert found[3].text == "1 of 2 tasks, 1 unknown"


def test_a_stopped_job_runs_nothing() -> None:
    found = stages(job(state="stopped", running_revision=4, converged=False), sync(**SYNC), [])
    assert found[2].text == "revision 4, stopped"
