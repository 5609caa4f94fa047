"""The contract of `SyncStore.commit_simple`: what it settles at once, and what it leaves."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from penstock.config.model import ChangeKind
from penstock.control.errors import Fenced, Unavailable
from penstock.store.plans import PlanWrite
from penstock.tasks.sinks import needs_sink
from penstock.wire.cluster import TaskProgress, TaskReport, TaskState
from services.state_syncer.budget import Budget
from services.state_syncer.plan import SyncRecord, SyncState
from services.state_syncer.progress import Plan
from services.state_syncer.simple import Terms
from services.state_syncer.waves import RolloutPolicy
from tests.contract.sync_store_forms import FORMS, commit, make_form, settle_ranks, state, view, views, write
from tests.support.jobs import make_config, make_layer


@pytest.fixture(params=FORMS)
def form(request: pytest.FixtureRequest) -> Any:
    return make_form(request)


TERMS = Terms(datetime(2026, 1, 1, tzinfo=UTC), Budget(share=100.0, count=1), RolloutPolicy())


def settled(form: Any, terms: Terms = TERMS) -> list[tuple[str, int]]:
    return [(alike.kind, alike.jobs) for alike in form.store.commit_simple(form.epoch, terms).committed]


def run(form: Any, *names: str, task_count: int = 2) -> None:
    """Jobs that run as they are expected."""
    for name in names:
        revision = form.layer(name, "base", make_layer(task_count=task_count))
        write(
            form,
            commits=[commit(name, revision=revision, task_count=task_count)],
            states=[state(SyncState.SYNCED, job=name)],
        )


def test_simple_changes_and_first_configurations_are_settled_at_once_and_others_left(form: Any) -> None:
    """1. Jobs run, and one waits. 2. Some get simple changes, others a rescale, a restart, a deletion; one is new.
    3. The simple ones are settled under one number, with states that say what changed. 4. The rest is left."""
    settle_ranks(form)
    run(form, "released", "upgraded", "labelled", "rescaled", "restarted", "going", "waits")
    write(form, states=[state(SyncState.WAITING, SyncRecord(SyncState.SYNCED, 1, "why"), job="waits")])
    for job, change in (
        ("released", {"query": {"sql": "SELECT key FROM events"}}),
        ("upgraded", {"package": {"version": "2"}}),
        ("labelled", {"labels": {"a": "b"}}),
        ("rescaled", {"task_count": 4}),
        ("restarted", {"priority": 1}),
        ("waits", {"priority": 1}),
    ):
        form.layer(job, "provisioner", change)
    form.restart("restarted")
    form.delete("going")
    form.layer("new", "base", make_layer())
    simple = form.store.commit_simple(form.epoch, TERMS)
    assert [(alike.kind, alike.jobs, [job for job, _ in alike.sample]) for alike in simple.committed] == [
        ("first", 1, ["new"]),
        ("none", 1, ["labelled"]),
        ("restart", 1, ["released"]),
        ("rollout", 1, ["upgraded"]),
    ]
    assert set(views(form)) == {"rescaled", "upgraded", "restarted", "going", "waits"}
    form.restart("released")
    seen = view(form, "released")
    assert seen.running is not None
    assert (seen.running.config["query"]["sql"], seen.running.commit_number) == (
        "SELECT key FROM events",
        simple.number,
    )
    assert seen.sync == SyncRecord(SyncState.SYNCED, seen.running.revision, "", ChangeKind.RESTART, ("query.sql",))
    assert settled(form) == [], "nothing simple is left"
    assert write(form, commits=[commit("released", revision=99)]) == simple.number + 1, "and no number was taken"


@pytest.mark.parametrize(
    ("output", "is_left"),
    [
        ({"topic": "sized", "key_groups": 4}, True),
        ({"type": "delta", "path": "file:/out"}, True),
        ({"type": "postgres", "table": "out"}, True),
        ({"type": "files", "path": "file:/out"}, False),
        ({"topic": "sized"}, False),
    ],
)
def test_a_job_whose_output_must_be_made_is_left(form: Any, output: Any, *, is_left: bool) -> None:
    """1. A job that was never started, and another one that is not to start yet. 2. The latter shall start."""
    settle_ranks(form)
    layer = {**make_layer(), "output": {"type": "kafka", **output}}
    form.layer("j", "base", layer)
    form.layer("later", "base", layer | {"desired_state": "stopped"})
    assert needs_sink(make_config(output=output) if "topic" in output else layer) == is_left
    assert settled(form) == [("first", 1 if is_left else 2)]
    form.layer("later", "oncall", {"desired_state": "running"})
    assert settled(form) == ([] if is_left else [("restart", 1)])
    assert set(views(form)) == ({"j", "later"} if is_left else set())


def test_a_change_of_the_output_is_left(form: Any) -> None:
    settle_ranks(form)
    run(form, "j")
    form.layer("j", "oncall", {"output": {"topic": "elsewhere"}})
    assert settled(form) == []


def test_how_many_jobs_may_be_settled_is_told(form: Any) -> None:
    form.layer("new", "base", make_layer())
    with form.store.read() as found:
        assert found.usual == 0, "new ranks: every job is merged anew"
    settle_ranks(form)
    run(form, "a", "b")
    form.layer("a", "oncall", {"priority": 2})
    form.delete("b")
    with form.store.read() as found:
        assert found.usual == 2


def test_a_forgotten_jobs_name_is_settled_in_a_generation_above_its_last(form: Any) -> None:
    settle_ranks(form)
    run(form, "j")
    form.delete("j")
    write(form, forget=["j"])
    form.layer("j", "base", make_layer())
    assert settled(form) == [("first", 1)]
    form.restart("j")
    seen = view(form)
    assert seen.running is not None
    assert (seen.running.generation, seen.last_generation) == (2, 0)


def test_an_older_leader_settles_nothing_and_neither_does_anyone_under_new_ranks(form: Any) -> None:
    form.layer("j", "base", make_layer())
    assert settled(form) == []
    settle_ranks(form)
    form.depose()
    with pytest.raises(Fenced):
        form.store.commit_simple(form.epoch, TERMS)
    with pytest.raises(Unavailable):
        form.away.commit_simple(form.epoch, TERMS)
    assert view(form).running is None


ROOM = TERMS._replace(budget=Budget(share=100.0, count=2))
WORKED = TaskProgress(batch_id=3, input_rows=5)


def test_rollouts_begin_as_far_as_there_is_room_and_the_others_wait(form: Any) -> None:
    """1. Jobs run, and one of them has a rescale under way. 2. All others get a new package: one begins, by priority,
    and the others are told to wait. 3. There is room for one more: the oldest write, not the first name."""
    settle_ranks(form)
    run(form, "d", "c", "b", "a")
    plan = Plan(
        revision=1, restarts=0, config=make_config(), fields=("task_count",), begun_at=TERMS.now, step_at=TERMS.now
    )
    write(form, plans=[PlanWrite("d", plan.model_dump(mode="json"), 1)])
    for job, priority in (("c", 0), ("b", 1), ("a", 0)):
        form.layer(job, "oncall", {"package": {"version": "2"}, "priority": priority})
    assert settled(form, ROOM) == [("rollout", 1)]
    assert form.store.count_states() == {"synced": 1, "rolling": 1, "queued": 2}
    seen = views(form)
    waits = "waiting: no more than 2 jobs may be disrupted at once"
    assert [(job, seen[job].sync.detail) for job in "ac"] == [(job, waits) for job in "ac"]
    assert seen["b"].rolling is not None
    assert settled(form, ROOM) == []
    assert settled(form, ROOM._replace(budget=Budget(share=100.0, count=3))) == [("rollout", 1)]
    assert {job for job, each in views(form).items() if each.rolling is not None} == {"b", "c"}


@pytest.mark.parametrize(
    ("change", "is_settled"),
    [
        ({}, True),
        ({"progress": None}, False),
        ({"progress": TaskProgress(batch_id=3, input_rows=0)}, False),
        ({"crashes": 1}, False),
        ({"state": TaskState.STARTING}, False),
        ({"revision": 1}, False),
        ({"generation": 2}, False),
        ({"restarts": 1}, True),
        (None, False),
        ("b", False),
    ],
)
def test_rollouts_whose_tasks_are_all_healthy_are_settled(form: Any, change: Any, *, is_settled: bool) -> None:
    """1. Rollouts of two jobs begin. 2. One is reported healthy by its owner, of the other another thing is said. 3. A
    job whose first wave is not its last one is left."""
    settle_ranks(form)
    run(form, "j", "k", task_count=1)
    revisions = {job: form.layer(job, "oncall", {"package": {"version": "2"}}) for job in "jk"}
    assert settled(form, ROOM) == [("rollout", 2)]
    for container in "ab":
        form.container(container)
        form.report(container, 1)
    form.own("a")
    healthy = {"index": 0, "state": TaskState.RUNNING, "generation": 1, "restarts": 0, "epoch": 1, "progress": WORKED}
    form.report_task("a", TaskReport(job="k", revision=revisions["k"], **healthy))
    if change is not None:
        other = healthy | {"revision": revisions["j"]} | (change if isinstance(change, dict) else {})
        form.report_task("a" if isinstance(change, dict) else change, TaskReport(job="j", **other))
    assert form.store.commit_simple(form.epoch, ROOM).settled == 1 + is_settled
    assert form.store.count_states() == ({"synced": 2} if is_settled else {"synced": 1, "rolling": 1})
    assert form.store.commit_simple(form.epoch, ROOM).settled == 0
