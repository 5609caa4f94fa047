"""The contract of `SyncStore`: a round sees what needs a look, and its writes are whole, fenced and never go back."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.config.model import ChangeKind
from penstock.control.errors import Fenced, Unavailable
from penstock.model.jobs import JobState
from services.state_syncer.decide.budget import Waits
from services.state_syncer.decide.effects import PlanWrite
from services.state_syncer.decide.progress import Plan, Progress, Step
from services.state_syncer.decide.view import SyncRecord, Unusable
from services.state_syncer.store.port import Batch
from services.state_syncer.store.states import SyncWrite
from tests.contract.sync_store_forms import FORMS, commit, make_form, settle_ranks, state, view, views, write
from tests.support.store.jobs import make_config, make_layer


@pytest.fixture(params=FORMS)
def form(request: pytest.FixtureRequest) -> Any:
    return make_form(request)


def test_a_job_is_seen_as_its_layers_ask_for_until_it_is_synced(form: Any) -> None:
    """1. A new job with two layers. 2. It is committed and synced: seen no more. 3. A restart is asked for."""
    settle_ranks(form)
    form.layer("j", "oncall", {"priority": 3})
    revision = form.layer("j", "base", make_layer(priority=1))
    seen = view(form)
    assert (seen.expected, seen.revision, seen.running, seen.sync) == (make_config(priority=3), revision, None, None)
    number = write(form, commits=[commit(revision=revision)], states=[state(JobState.SYNCED, revision=revision)])
    assert views(form) == {}
    revision = form.restart("j")
    seen = view(form)
    assert (seen.revision, seen.restarts) == (revision, 1)
    assert seen.running is not None
    assert (seen.running.commit_number, seen.running.config, seen.running.started) == (number, make_config(), True)
    assert seen.sync is not None
    assert (seen.sync.state, seen.sync.detail) == (JobState.SYNCED, "why")


def test_layers_that_merge_to_nothing_valid_are_told_as_unusable(form: Any) -> None:
    form.layer("broken", "base", {"no_such_field": 1})
    form.layer("empty", "base", None)
    found = views(form)
    assert isinstance(found["broken"].expected, Unusable)
    assert isinstance(found["empty"].expected, Unusable)


def test_new_ranks_make_a_round_look_at_every_job(form: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also of more jobs than are read at once."""
    monkeypatch.setattr("services.state_syncer.store.jobs.PAGE", 2)
    for job in "abcde":
        revision = form.layer(job, "base", make_layer())
        synced = state(JobState.SYNCED, job=job, revision=revision)
        write(form, commits=[commit(job, revision=revision)], states=[synced])
    settle_ranks(form)
    assert views(form) == {}
    form.rank("scaler", 400)
    with form.store.read() as found:
        assert found.new_ranks is not None
        assert found.new_ranks["scaler"] == 400
        assert sorted(seen.job for seen in found.views) == list("abcde")
    settle_ranks(form)
    assert views(form) == {}


def test_each_write_with_commits_has_one_higher_number(form: Any) -> None:
    first = write(form, commits=[commit("a"), commit("b")])
    assert write(form, states=[state(JobState.WAITING)]) is None
    assert write(form, commits=[commit("c")]) > first


def test_an_older_revision_never_replaces_a_newer(form: Any) -> None:
    form.layer("j", "base", make_layer())
    write(form, commits=[commit(revision=5, priority=5)])
    write(form, commits=[commit(revision=4, priority=4)])
    assert view(form).running.config == make_config(priority=5)


def test_a_job_that_ever_started_stays_started(form: Any) -> None:
    form.layer("j", "base", make_layer())
    write(form, commits=[commit()])
    write(form, commits=[commit(revision=2, stopping=True)])
    assert view(form).running.started is True


def test_an_older_leader_is_fenced_and_nothing_of_its_write_is_there(form: Any) -> None:
    form.layer("j", "base", make_layer())
    form.layer("going", "base", make_layer())
    form.delete("going")
    before = views(form)
    form.depose()
    with pytest.raises(Fenced):
        write(form, commits=[commit()], forget=["going"], states=[state(JobState.SYNCED)], ranks={"base": 1})
    with form.store.read() as found:
        assert found.new_ranks is not None
        assert {seen.job: seen for seen in found.views} == before
    assert form.store.count_states() == {}


def test_a_forgotten_job_leaves_its_generation_behind(form: Any) -> None:
    """1. A job of generation 3 is deleted and forgotten. 2. Its name lives again: the generation is known. 3. It is
    committed as remade."""
    form.layer("j", "base", make_layer())
    write(form, commits=[commit(generation=3)], states=[state(JobState.SYNCED)])
    form.delete("j")
    write(form, forget=["j"])
    assert views(form) == {}
    assert form.store.count_states() == {}
    form.layer("j", "base", make_layer())
    seen = view(form)
    assert (seen.last_generation, seen.running, seen.sync, seen.deleting) == (3, None, None, False)
    write(form, commits=[commit(generation=4)], remade=["j"])
    assert view(form).last_generation == 0


def test_a_job_whose_deletion_was_taken_back_is_not_forgotten(form: Any) -> None:
    form.layer("j", "base", make_layer())
    form.delete("j")
    form.undelete("j")
    write(form, forget=["j"])
    assert view(form).deleting is False


def test_a_state_that_somebody_changed_meanwhile_is_left_alone(form: Any) -> None:
    """1. A job fails. 2. It is released while a round decides. 3. The round's state does not overwrite that."""
    form.layer("j", "base", make_layer())
    write(form, states=[state(JobState.FAILED, failures=1)])
    seen = view(form).sync
    form.release("j")
    write(form, states=[state(JobState.FAILED, seen, failures=2)])
    left = view(form).sync
    assert left is not None
    assert (left.state, left.failures) == (JobState.PENDING, 0)
    write(form, states=[state(JobState.SYNCED)])
    assert view(form).sync == left, "a state that was decided upon without a row is no answer to one"
    write(form, states=[state(JobState.WAITING, left)])
    assert form.store.count_states() == {"waiting": 1}


def test_quarantine_raises_an_alert_until_the_job_recovers(form: Any) -> None:
    form.layer("j", "base", make_layer())
    write(form, states=[state(JobState.QUARANTINED, failures=5)])
    assert form.quarantined() == {"j"}
    write(form, states=[state(JobState.SYNCED, view(form).sync)])
    assert form.quarantined() == set()


PLAN = Plan(
    revision=1, restarts=0, config=make_config(), fields=("task_count",), begun_at="2026-01-01T00:00:00Z",
    step_at="2026-01-01T00:00:00Z",
)  # fmt: skip


def recorded(plan: Plan, generation: int | None = None, job: str = "j") -> PlanWrite:
    return PlanWrite(job, plan if generation is None else plan.model_copy(update={"generation": generation}))


def test_a_recorded_plan_is_found_until_it_ends_and_its_generation_stays_taken(form: Any) -> None:
    """1. A plan is recorded. 2. It takes a generation, then another. 3. It ends. 4. A later commit keeps the highest,
    and so does the job's deletion."""
    form.layer("j", "base", make_layer())
    write(form, commits=[commit()], states=[state(JobState.RESCALING)], plans=[recorded(PLAN)])
    assert view(form).progress == Progress(PLAN, 1)
    write(form, plans=[recorded(PLAN, 2)])
    later = PLAN.at(Step.REDISTRIBUTE, PLAN.step_at, "a", 3)
    write(form, plans=[recorded(later, 3)])
    assert view(form).progress == Progress(later, 3)
    write(form, plans=[PlanWrite("j", None, seconds={"total": 1.5})])
    assert view(form).progress is None
    write(form, commits=[commit(revision=2)], plans=[recorded(PLAN)])
    assert view(form).progress == Progress(PLAN, 3)
    form.delete("j")
    write(form, forget=["j"])
    form.layer("j", "base", make_layer())
    assert view(form).last_generation == 3


def test_a_round_is_given_all_plans_the_live_containers_and_the_number_of_jobs(form: Any) -> None:
    for name in ("live", "gone"):
        form.container(name, "live" if name == "live" else "lost")
    for job in ("j", "going", "other"):
        form.layer(job, "base", make_layer())
    with form.store.read() as found:
        assert (dict(found.plans), set(found.containers)) == ({}, {"live"})
    jobs = ("j", "going", "other")
    states = [state(JobState.RESCALING, job=job) for job in jobs]
    write(form, commits=[commit(job) for job in jobs], states=states)
    write(form, plans=[recorded(PLAN, job=job) for job in ("j", "going")])
    form.delete("going")
    with form.store.read() as found:
        assert {job: (row.deleting, row.newest_generation) for job, row in found.plans.items()} == {
            "j": (False, 1),
            "going": (True, 1),
        }
        assert {name: (place.url, place.offers) for name, place in found.containers.items()} == {
            "live": ("http://x", frozenset(["r", "disk=ssd"]))
        }
        assert found.count_running() == 3


def test_a_plan_of_an_older_leader_is_not_recorded(form: Any) -> None:
    form.layer("j", "base", make_layer())
    write(form, commits=[commit()], states=[state(JobState.RESCALING)])
    form.depose()
    with pytest.raises(Fenced):
        write(form, plans=[recorded(PLAN, 2)])
    assert view(form).progress is None


def test_states_are_counted(form: Any) -> None:
    write(form, states=[state(JobState.SYNCED, job=job) for job in "ab"] + [state(JobState.WAITING, job="c")])
    assert form.store.count_states() == {"synced": 2, "waiting": 1}


@pytest.mark.parametrize("queued", [False, True])
def test_synced_jobs_whose_running_rows_do_not_agree_are_seen_when_asked_for(form: Any, *, queued: bool) -> None:
    """1. Jobs are `synced`; one has no running row, one an older, one a stopping one, one lacks a restart, one runs
    part of a rollout. 2. None is seen. 3. Asked for those that drifted: all but the whole one. None that waits for
    room."""
    settle_ranks(form)
    for job in ("whole", "none", "older", "stops", "restarts", "rolls"):
        revision = form.layer(job, "base", make_layer())
        if job == "restarts":
            revision = form.restart(job)
        row = commit(job, revision=revision - (job == "older"), stopping=job == "stops")
        row = row._replace(rollout={"revision": 1} if job == "rolls" else None)
        new = state(JobState.QUEUED if queued else JobState.SYNCED, job=job, revision=revision)
        write(form, commits=[] if job == "none" else [row], states=[new])
    with form.store.read() as found:
        assert [*found.others, *found.fresh] == []
        assert set(found.drifted()) == (set() if queued else {"none", "older", "stops", "restarts", "rolls"})


@pytest.mark.parametrize("change", [None, "write", "restart", "delete"])
def test_who_waits_for_room_is_read_as_far_as_there_is_room_unless_something_happens(
    form: Any, change: str | None
) -> None:
    """1. Jobs wait for a rollout and for a rescale. 2. Something happens to one of them."""
    settle_ranks(form)
    for job, kind, priority in (("c", "RESTART", 0), ("b", "RESTART", 5), ("a", "RESTART", 0), ("r", "RESCALE", 0)):
        revision = form.layer(job, "base", make_layer(priority=priority))
        waits = SyncRecord(JobState.QUEUED, revision, "waiting", ChangeKind[kind])
        write(form, commits=[commit(job, priority=9)], states=[SyncWrite(job, waits, None)])
    match change:
        case "write":
            form.layer("c", "oncall", {"priority": 3})
        case "restart":
            form.restart("c")
        case "delete":
            form.delete("c")
    with form.store.read() as found:
        assert {seen.job for seen in found.views} == (set() if change is None else {"c"})
        for room, jobs in (((0, 0), set()), ((1, 1), set("rb")), ((9, 2), set("rbc" if change is None else "rba"))):
            seen = {view.job for view in found.queued(rescales=room[0], rollouts=room[1])}
            assert seen == jobs, "by priority, then the oldest write, then the name"


def test_whatever_simple_commits_leave_is_read_and_an_older_leader_is_fenced(form: Any) -> None:
    settle_ranks(form)
    form.layer("j", "base", make_layer())
    waits = Waits(
        "waits for a rescale", "waits for a rollout", "waits for a copy", "waits for a place", "waits for its turn"
    )
    done = form.store.commit_simple(form.epoch, waits, names=["j"], sample=5)
    assert set(views(form)) == (set() if done.number else {"j"})
    form.depose()
    with pytest.raises(Fenced):
        form.store.commit_simple(form.epoch, waits, names=None, sample=5)
    with pytest.raises(Unavailable):
        form.away.commit_simple(form.epoch, waits, names=None, sample=5)


def test_a_store_that_is_away_is_unavailable_and_forgets_nothing(form: Any) -> None:
    form.layer("j", "base", make_layer())
    before = views(form)
    with pytest.raises(Unavailable), form.away.read():
        pass
    with pytest.raises(Unavailable):
        form.away.write(Batch(commits=[commit()]), form.epoch)
    with pytest.raises(Unavailable):
        form.away.count_states()
    assert views(form) == before
