"""The planner of a rescale: a table of what follows from what, and properties of what must never follow."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.model.jobs import JobState
from penstock.tasks.redistribution import RedistributionReport, SavepointName
from services.state_syncer.decide.change import decide
from services.state_syncer.decide.decisions import (
    AwaitStopped,
    BackingOff,
    Commit,
    End,
    Finish,
    Poll,
    Record,
    RetryStep,
    StartRescale,
)
from services.state_syncer.decide.effects import effects
from services.state_syncer.decide.facts import Fact
from services.state_syncer.decide.moves import MOVES
from services.state_syncer.decide.next_step import next_step
from services.state_syncer.decide.observe import Presence, Silent
from services.state_syncer.decide.progress import QUIESCED_STEPS, IllegalMove, Plan, Progress, Step
from services.state_syncer.decide.quiet import Quiet
from services.state_syncer.decide.rescale import NOBODY, begin_rescale
from services.state_syncer.decide.view import JobView, Running, SyncRecord, Unusable
from services.state_syncer.decide.waves import RolloutPolicy
from services.state_syncer.decide.whereabouts import Whereabouts
from services.state_syncer.host_tasks.outcomes import Done, Failed, Lost, Outcome, Unanswered
from tests.support.store.jobs import make_config

SAVEPOINT = SavepointName(job="j", name="s")
NOW = datetime(2026, 1, 1, tzinfo=UTC)
OLD, NEW = make_config(), make_config(task_count=4, priority=2)
RUNNING = Running(OLD, revision=5, generation=3, restarts=0, stopping=True, started=True, commit_number=9)
STARTED = replace(RUNNING, stopping=False)
QUIESCING = replace(STARTED, quiescing=True)
LEVELLING = replace(QUIESCING, level_ms=5_000)
QUIET = Quiet(0, unheard=False)
UNEVEN = Quiet(0, unheard=False, goal_ms=5_000)
LOST = Quiet(0, unheard=False, where=Whereabouts(silent=(Silent("a", 20.0),)))
DONE = Done(RedistributionReport())
LATER = NOW + timedelta(seconds=10)


def plan(step: Step, **fields: Any) -> Plan:
    asked = {} if step in (*QUIESCED_STEPS, Step.AWAIT_STOPPED) else {"generation": 7, "container": "a"}
    values = {"step": step, "revision": 6, "restarts": 0, "config": NEW, "fields": ("task_count",)} | asked
    return Plan(**(values | {"begun_at": NOW, "step_at": NOW} | fields))


def view(step: Step, outcome: Outcome | None = None, **fields: Any) -> JobView:
    found = {"candidate": "b", "container_lives": True, "has_state": True, "has_transactions": False}
    found |= {name: fields.pop(name) for name in found if name in fields}
    recorded = fields.pop("plan", None) or plan(step)
    progress = Progress(recorded, newest_generation=7, outcome=outcome or Unanswered(), **found)
    sync = SyncRecord(JobState.RESCALING, 6, failures=2)
    values: dict[str, Any] = {"job": "j", "revision": 6, "restarts": 0, "deleting": False, "expected": NEW}
    values |= {
        "running": {Step.COPY: STARTED, Step.QUIESCE: QUIESCING, Step.LEVEL: LEVELLING}.get(step, RUNNING),
        "sync": sync,
        "presence": Presence.UNKNOWN,
        "progress": progress,
    }
    return JobView(**(values | fields))


def after(job: JobView, now: datetime) -> Any:
    return next_step(job, now, RolloutPolicy())


def test_the_table_has_a_move_for_every_fact_that_a_step_can_find() -> None:
    waiting = {Fact.CHANGED, Fact.LATE, Fact.UNKNOWN, Fact.NOT_GONE, Fact.GONE}
    working = {Fact.UNANSWERED, Fact.DONE, Fact.FAILED, Fact.LOST}
    moving = working | {Fact.CHANGED, Fact.LATE, Fact.GIVEN_UP}
    copying = {Fact.CHANGED, Fact.LATE, Fact.NEEDLESS, Fact.UNASKED, Fact.UNANSWERED, Fact.DONE, Fact.FAILED}
    lost = {Fact.MISSED, Fact.AWAITED, Fact.RETURNED, Fact.AWAY, Fact.AWAY_AGAIN}
    quiescing = lost | {Fact.CHANGED, Fact.LATE, Fact.BUSY, Fact.QUIET, Fact.UNEVEN, Fact.TOO_FAR}
    refused = {Fact.UNMOVABLE, Fact.UNSEALABLE}
    wanted = {
        Step.COPY: copying | refused | {Fact.UNWANTED, Fact.GIVEN_UP, Fact.AWAITED, Fact.OUT_OF_DATE, Fact.STRANDED},
        Step.QUIESCE: quiescing,
        Step.LEVEL: quiescing,
        Step.AWAIT_STOPPED: waiting,
        Step.REDISTRIBUTE: moving,
        Step.SEAL: working,
    }
    assert set(MOVES) == {(step, fact) for step, facts in wanted.items() for fact in facts}


@pytest.mark.parametrize("quiet", [Quiet(), Quiet(2, unheard=False), Quiet(0, unheard=True)])
def test_nothing_is_stopped_before_every_task_is_known_to_be_quiet(quiet: Quiet) -> None:
    decision = after(view(Step.QUIESCE, quiet=quiet), LATER)
    assert decision == Poll(plan(Step.QUIESCE), str(quiet))


def test_when_all_are_quiet_the_stop_is_committed() -> None:
    decision = after(view(Step.QUIESCE, quiet=QUIET), LATER)
    assert isinstance(decision, Record)
    assert decision.commit is not None
    assert (decision.plan.step, decision.plan.step_at) == (Step.AWAIT_STOPPED, LATER)
    assert (decision.commit.stopping, decision.commit.quiescing) == (True, False)


@pytest.mark.parametrize(("within", "late"), [(None, 600), (45.0, 45), (3600.0, 3600)])
def test_what_does_not_become_quiet_in_time_is_taken_back_without_a_stop(within: float | None, late: int) -> None:
    wanted = make_config(task_count=4, rescale_within_seconds=within)
    job = view(Step.QUIESCE, quiet=Quiet(1, unheard=False), expected=wanted, plan=plan(Step.QUIESCE, config=wanted))
    assert isinstance(after(job, NOW + timedelta(seconds=late - 1)), Poll)
    decision = after(job, NOW + timedelta(seconds=late))
    assert isinstance(decision, End)
    assert (decision.commit.config, decision.commit.stopping, decision.commit.quiescing) == (OLD, False, False)
    assert decision.failure is not None
    assert "1 task has not finished its batch; the job was never stopped" in decision.failure.detail


@pytest.mark.parametrize("expected", [OLD, make_config(priority=3), make_config(package={"name": "p", "version": "2"})])
def test_tasks_take_rows_again_when_no_rescale_is_wanted_any_more(expected: Any) -> None:
    decision = after(view(Step.QUIESCE, revision=7, expected=expected, quiet=QUIET), LATER)
    assert isinstance(decision, End)
    assert decision.failure is None
    assert (decision.commit.config, decision.commit.revision, decision.commit.quiescing) == (OLD, 5, False)


def test_another_size_asked_for_meanwhile_gives_no_more_time() -> None:
    decision = after(view(Step.QUIESCE, revision=7, expected=make_config(task_count=8)), LATER)
    assert isinstance(decision, Record)
    assert (decision.plan.step, decision.plan.config["task_count"], decision.plan.step_at) == (Step.QUIESCE, 8, NOW)
    assert decision.commit is None


def test_a_job_that_quiesces_without_a_plan_is_released() -> None:
    job = replace(view(Step.QUIESCE), progress=None, expected=OLD, revision=5, sync=SyncRecord(JobState.SYNCED, 5))
    decision = decide(job, NOW)
    assert isinstance(decision, Commit)
    assert not decision.quiescing


def test_a_job_without_tasks_begins_with_a_stop() -> None:
    idle = OLD | {"desired_state": "stopped"}
    job = replace(view(Step.SEAL), progress=None, running=replace(STARTED, config=idle))
    decision = decide(job, NOW)
    assert isinstance(decision, StartRescale)
    hold = begin_rescale(job, decision, NOW)
    assert hold.commit is not None
    assert (hold.plan.step, hold.plan.config, hold.plan.fields) == (Step.AWAIT_STOPPED, NEW, ("task_count",))
    assert hold.plan.generation is None, "no number is taken before it is needed"
    assert (hold.commit.config, hold.commit.generation, hold.commit.stopping) == (idle, 3, True)


@pytest.mark.parametrize(
    ("sync", "told"),
    [
        (SyncRecord(JobState.FAILED, 6, "step quiesce: too late", failures=2), "step quiesce: too late"),
        (SyncRecord(JobState.FAILED, 5, "another write failed", failures=2), ""),
        (SyncRecord(JobState.QUEUED, 6, "other jobs first", failures=2), ""),
        (None, ""),
    ],
)
def test_an_attempt_remembers_how_the_one_before_failed(sync: SyncRecord | None, told: str) -> None:
    job = replace(view(Step.AWAIT_STOPPED), progress=None, running=STARTED, sync=sync)
    start = decide(replace(job, sync=None), NOW)
    assert isinstance(start, StartRescale)
    begun = begin_rescale(job, start, NOW).plan
    assert begun.failed_before == told
    assert ("failed_before" in begun.model_dump(mode="json")) == bool(told), "an older release reads the first attempt"


@pytest.mark.parametrize("presence", [Presence.PRESENT, Presence.UNKNOWN])
def test_nothing_follows_while_tasks_are_there_or_it_is_unknown(presence: Presence) -> None:
    assert isinstance(after(view(Step.AWAIT_STOPPED, presence=presence), LATER), Poll)


def test_absent_counts_only_once_the_stop_is_committed() -> None:
    not_stopped = view(Step.AWAIT_STOPPED, presence=Presence.ABSENT, running=replace(RUNNING, stopping=False))
    assert isinstance(after(not_stopped, LATER), Poll)


def test_when_the_tasks_are_gone_a_number_that_was_never_used_is_recorded_with_its_container() -> None:
    decision = after(view(Step.AWAIT_STOPPED, presence=Presence.ABSENT), LATER)
    assert isinstance(decision, Record)
    now = decision.plan
    assert (now.step, now.generation, now.container, now.step_at) == (Step.REDISTRIBUTE, 8, "b", LATER)
    assert now.seconds == {"await_stopped": 10.0}


def test_without_a_live_container_it_waits_and_says_so() -> None:
    job = view(Step.AWAIT_STOPPED, presence=Presence.ABSENT, candidate=None)
    decision = after(job, NOW)
    assert decision == Poll(plan(Step.AWAIT_STOPPED), NOBODY)
    assert isinstance(decision, Poll)
    record = effects(job, decision, NOW).record
    assert record is not None
    assert NOBODY in record.detail


def test_a_redistribution_that_is_done_leads_to_the_seal_by_the_same_container() -> None:
    decision = after(view(Step.REDISTRIBUTE, DONE), LATER)
    assert isinstance(decision, Record)
    assert (decision.plan.step, decision.plan.generation, decision.plan.container) == (Step.SEAL, 7, "a")


def test_the_seal_leads_to_the_commit_of_what_was_recorded() -> None:
    seconds = {"await_stopped": 1.0, "redistribute": 2.0}
    job = view(Step.SEAL, Done(), plan=plan(Step.SEAL, seconds=seconds))
    decision = after(job, LATER)
    assert isinstance(decision, Finish)
    commit = decision.commit
    assert (commit.config, commit.revision, commit.generation, commit.stopping) == (NEW, 6, 7, False)
    assert decision.seconds == {**seconds, "seal": 10.0, "total": 10.0}
    record = effects(job, decision, LATER).record
    assert record is not None
    assert (record.state, record.failures) == (JobState.SYNCED, 0)


@pytest.mark.parametrize("outcome", [Failed("disk full"), Lost("silent")])
def test_a_redistribution_that_cannot_be_done_resumes_the_old_generation(outcome: Outcome) -> None:
    job = view(Step.REDISTRIBUTE, outcome, plan=plan(Step.REDISTRIBUTE, losses=2))
    decision = after(job, NOW)
    assert isinstance(decision, End)
    assert (decision.commit.config, decision.commit.generation, decision.commit.stopping) == (OLD, 3, False)
    record = effects(job, decision, NOW).record
    assert record is not None
    assert (record.state, record.failures) == (JobState.FAILED, 3)
    assert "redistribute on a" in record.detail


@pytest.mark.parametrize(("step", "generation"), [(Step.REDISTRIBUTE, 8), (Step.SEAL, 7)])
@pytest.mark.parametrize("lost", [{"outcome": Lost("silent")}, {"container_lives": False}])
def test_a_lost_container_is_replaced_and_a_redistribution_takes_a_new_number(
    step: Step, generation: int, lost: dict[str, Any]
) -> None:
    job = view(step, **lost)
    decision = after(job, NOW)
    assert isinstance(decision, Record)
    assert (decision.plan.step, decision.plan.container, decision.plan.generation) == (step, "b", generation)
    record = effects(job, decision, NOW).record
    assert record is not None
    assert record.detail.endswith("(attempts lost: 1)"), "a seal that is lost again and again tells of it"


def test_an_answer_counts_though_its_container_is_lost_since() -> None:
    assert isinstance(after(view(Step.REDISTRIBUTE, DONE, container_lives=False), NOW), Record)


@pytest.mark.parametrize("step", [Step.AWAIT_STOPPED, Step.REDISTRIBUTE])
def test_what_takes_too_long_is_given_up_before_the_seal(step: Step) -> None:
    decision = after(view(step), NOW + timedelta(hours=2))
    assert isinstance(decision, End)
    assert decision.failure is not None


def test_after_the_seal_is_recorded_it_only_goes_forward() -> None:
    """1. The expected configuration changes, is broken, or the seal fails: no way leads back. 2. It is tried later."""
    for changed in ({"revision": 9}, {"expected": OLD}, {"expected": Unusable("bad", None)}):
        decision = after(view(Step.SEAL, Done(), **changed), NOW + timedelta(days=1))
        assert isinstance(decision, Finish)
        assert decision.commit.config == NEW
    job = view(Step.SEAL, Failed("no"))
    decision = after(job, NOW)
    assert isinstance(decision, RetryStep)
    record = effects(job, decision, NOW).record
    assert record is not None
    later = replace(job, sync=record)
    assert after(later, NOW) == BackingOff()
    assert record.next_attempt_at is not None
    assert not isinstance(after(later, record.next_attempt_at), BackingOff)


@pytest.mark.parametrize("step", [Step.AWAIT_STOPPED, Step.REDISTRIBUTE])
def test_a_change_before_the_seal_makes_another_plan_of_the_stopped_job(step: Step) -> None:
    decision = after(view(step, revision=7, expected=make_config(task_count=8)), LATER)
    assert isinstance(decision, Record)
    assert (decision.plan.step, decision.plan.revision, decision.plan.config["task_count"]) == (
        Step.AWAIT_STOPPED,
        7,
        8,
    )
    assert (decision.plan.generation, decision.plan.container) == (None, None)


def test_a_change_of_other_fields_goes_along_with_the_same_redistribution() -> None:
    expected = make_config(task_count=4, priority=3)
    decision = after(view(Step.REDISTRIBUTE, revision=7, restarts=1, expected=expected), LATER)
    assert isinstance(decision, Record)
    now = decision.plan
    assert (now.step, now.generation, now.container, now.step_at) == (Step.REDISTRIBUTE, 7, "a", NOW)
    assert (now.revision, now.restarts, now.config) == (7, 1, expected)


def test_a_rescale_that_is_taken_back_resumes_with_the_rest_of_the_write() -> None:
    job = view(Step.REDISTRIBUTE, revision=7, expected=make_config(priority=2))
    decision = after(job, NOW)
    assert isinstance(decision, End)
    assert decision.failure is None
    assert (decision.commit.config, decision.commit.generation) == (make_config(priority=2), 3)
    record = effects(job, decision, NOW).record
    assert record is not None
    assert (record.state, record.revision) == (JobState.SYNCED, 7)


@pytest.mark.parametrize("expected", [make_config(state_backend="rocksdb"), Unusable("bad", None)])
def test_a_change_that_cannot_be_made_resumes_what_ran(expected: Any) -> None:
    decision = after(view(Step.REDISTRIBUTE, revision=7, expected=expected), NOW)
    assert isinstance(decision, End)
    assert decision.failure is not None
    assert decision.commit.config == OLD


def test_a_deletion_goes_before_the_plan() -> None:
    assert after(view(Step.REDISTRIBUTE, DONE, deleting=True), NOW) == AwaitStopped(Presence.UNKNOWN)


def test_a_plan_without_a_new_generation_is_never_committed() -> None:
    with pytest.raises(IllegalMove):
        after(view(Step.SEAL, Done(), plan=plan(Step.SEAL, generation=3)), NOW)


def test_a_plan_remembers_who_ran_the_job() -> None:
    job = replace(view(Step.AWAIT_STOPPED), progress=None)
    decision = decide(job, NOW)
    assert isinstance(decision, StartRescale)
    assert begin_rescale(job, decision, NOW, {"b", "a"}).plan.ran_on == ("a", "b")


OUTCOMES = st.sampled_from([Unanswered(), DONE, Failed("x"), Lost("y")])
VIEWS = st.builds(
    lambda step, outcome, presence, quiet, revision, expected, lives, candidate, losses: view(
        step,
        outcome,
        presence=presence,
        quiet=quiet,
        revision=revision,
        expected=expected,
        container_lives=lives,
        candidate=candidate,
        plan=plan(step, losses=losses),
    ),
    st.sampled_from(Step),
    OUTCOMES,
    st.sampled_from(Presence),
    st.sampled_from([QUIET, Quiet(), Quiet(2, unheard=False), UNEVEN, LOST]),
    st.integers(6, 8),
    st.sampled_from([OLD, NEW, make_config(task_count=8), make_config(state_backend="rocksdb"), Unusable("b", None)]),
    st.booleans(),
    st.sampled_from([None, "b"]),
    st.integers(0, 3),
)


@given(VIEWS, st.integers(0, 10_000))
def test_tasks_start_only_as_the_old_generation_or_the_one_that_was_sealed_for(job: JobView, seconds: int) -> None:
    decision = after(job, NOW + timedelta(seconds=seconds))
    assert job.progress is not None
    step = job.progress.plan.step
    if isinstance(decision, End):
        assert step is not Step.SEAL
        assert decision.commit.generation == RUNNING.generation
    if isinstance(decision, Finish):
        assert step is Step.SEAL
        assert isinstance(job.progress.outcome, Done)
        assert decision.commit.config == job.progress.plan.config
    if isinstance(decision, Record) and decision.commit is not None:
        commit = decision.commit
        is_taken_back = decision.plan.step is Step.COPY and step in QUIESCED_STEPS and job.quiet == LOST
        assert is_taken_back or commit.stopping != commit.quiescing
        assert not (is_taken_back and (commit.stopping or commit.quiescing))
        assert is_taken_back or step is Step.COPY or (step in QUIESCED_STEPS and job.quiet.is_certain)
        assert step is not Step.COPY or commit.quiescing


@given(VIEWS)
def test_a_new_attempt_never_has_a_number_that_was_taken(job: JobView) -> None:
    decision = after(job, NOW)
    assert job.progress is not None
    if isinstance(decision, Record) and decision.plan.generation != job.progress.plan.generation:
        assert decision.plan.generation is None or decision.plan.generation > job.progress.newest_generation
    if isinstance(decision, Record) and decision.plan.step is Step.REDISTRIBUTE:
        fresh = job.progress.plan.step is Step.AWAIT_STOPPED
        assert not fresh or job.presence is Presence.ABSENT
