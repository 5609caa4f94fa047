"""`decide` and the sync states that it leads to: tables of what follows, properties of what must never follow."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.config.classify import classify
from penstock.config.model import ChangeKind
from penstock.model.jobs import JobState
from services.state_syncer.decide.change import decide
from services.state_syncer.decide.decisions import AwaitStopped, BackingOff, Commit, Fail, Forget, Nothing, StartRescale
from services.state_syncer.decide.effects import (
    FIRST_BACKOFF_SECONDS,
    LONGEST_BACKOFF_SECONDS,
    QUARANTINE_AFTER_FAILURES,
    backoff_seconds,
    effects,
)
from services.state_syncer.decide.observe import Presence
from services.state_syncer.decide.view import JobView, Running, SyncRecord, Unusable
from services.state_syncer.store.recorded import expected_config
from tests.support.store.jobs import make_config, make_layer

NOW = datetime(2026, 1, 1, tzinfo=UTC)
CONFIG = make_config()
STOPPED = make_config(desired_state="stopped")
RUNNING = Running(CONFIG, revision=5, generation=3, restarts=0, stopping=False, started=True, commit_number=9)
SYNCED = SyncRecord(JobState.SYNCED, revision=5)
INVALID = Unusable("task_count is 9 but there are 8 key groups", "task_count")


def view(expected: Any = CONFIG, running: Running | None = RUNNING, **fields: Any) -> JobView:
    values: dict[str, Any] = {"job": "j", "revision": 6, "restarts": 0, "deleting": False, "sync": SYNCED}
    return JobView(expected=expected, running=running, **(values | fields))


def changed(**overrides: Any) -> dict[str, Any]:
    return make_config(**overrides)


@pytest.mark.parametrize(
    ("overrides", "kind"),
    [
        ({}, ChangeKind.NONE),
        ({"labels": {"a": "b"}}, ChangeKind.NONE),
        ({"priority": 3}, ChangeKind.LIVE),
        ({"trigger_interval_seconds": 9.0}, ChangeKind.RESTART),
        ({"desired_state": "stopped"}, ChangeKind.RESTART),
    ],
)
def test_a_simple_difference_is_committed(overrides: dict[str, Any], kind: ChangeKind) -> None:
    decision = decide(view(changed(**overrides)), NOW)
    assert isinstance(decision, Commit)
    assert decision.config == changed(**overrides)
    assert (decision.revision, decision.generation, decision.stopping) == (6, 3, False)
    assert decision.difference.kind is kind


def test_a_first_start_takes_a_generation_above_all_of_the_name() -> None:
    first = decide(view(running=None, sync=None), NOW)
    again = decide(view(running=None, sync=None, last_generation=4), NOW)
    assert isinstance(first, Commit)
    assert isinstance(again, Commit)
    assert (first.generation, again.generation) == (1, 5)


def test_a_job_that_runs_what_it_should_is_left_alone() -> None:
    assert decide(view(revision=5), NOW) == Nothing()


def test_a_rescale_of_a_job_that_ran_begins_a_plan_for_the_whole_write() -> None:
    decision = decide(view(changed(task_count=4, priority=3)), NOW)
    assert isinstance(decision, StartRescale)
    assert decision.commit.config == changed(task_count=4, priority=3)
    assert [change.field for change in decision.commit.difference.fields] == ["task_count"]
    assert effects(view(), decision, NOW).record is None, "whether it begins is not said yet"


@pytest.mark.parametrize("overrides", [{"task_count": 4}, {"state_backend": "rocksdb"}])
def test_a_job_that_never_started_takes_any_change(overrides: dict[str, Any]) -> None:
    never = replace(RUNNING, config=STOPPED, started=False)
    decision = decide(view(changed(**overrides), never), NOW)
    assert isinstance(decision, Commit)
    assert decision.generation == never.generation


def test_a_forbidden_difference_fails_with_its_fields_and_a_way_out() -> None:
    decision = decide(view(changed(state_backend="rocksdb", priority=3)), NOW)
    assert isinstance(decision, Fail)
    assert decision.fields == ("state_backend",)
    assert "new job" in decision.detail


def test_an_invalid_merge_fails_and_touches_nothing() -> None:
    for running in (None, RUNNING):
        decision = decide(view(INVALID, running), NOW)
        assert isinstance(decision, Fail)
        assert "8 key groups" in decision.detail
        assert decision.fields == ("task_count",)


def test_when_the_rescale_is_taken_back_the_rest_is_committed() -> None:
    waiting = SyncRecord(JobState.WAITING, 6, "no room", ChangeKind.RESCALE, ("task_count",))
    decision = decide(view(changed(priority=3), revision=7, sync=waiting), NOW)
    assert isinstance(decision, Commit)
    assert effects(view(revision=7), decision, NOW).record == SyncRecord(
        JobState.SYNCED, 7, kind=ChangeKind.LIVE, fields=("priority",)
    )


def test_a_restart_is_committed() -> None:
    decision = decide(view(restarts=1), NOW)
    assert isinstance(decision, Commit)
    assert (decision.restarts, decision.revision) == (1, 6)


@pytest.mark.parametrize(
    ("expected", "sync", "state"),
    [
        (make_config(state_backend="rocksdb"), SYNCED, JobState.FAILED),
        (INVALID, SYNCED, JobState.FAILED),
    ],
)
def test_a_restart_does_not_wait_for_a_change_that_must(expected: Any, sync: SyncRecord, state: JobState) -> None:
    job = view(expected, restarts=1, sync=sync)
    decision = decide(job, NOW)
    assert isinstance(decision, Commit)
    assert (decision.config, decision.revision, decision.restarts) == (RUNNING.config, RUNNING.revision, 1)
    record = effects(job, decision, NOW).record
    assert record is not None
    assert record.state is state


def test_a_restart_leaves_quarantine_as_it_is() -> None:
    job = view(INVALID, restarts=1, sync=SyncRecord(JobState.QUARANTINED, 6, failures=5))
    decision = decide(job, NOW)
    assert isinstance(decision, Commit)
    assert effects(job, decision, NOW).record is None


STOPPING = replace(RUNNING, config=STOPPED, stopping=True)


@pytest.mark.parametrize(
    ("running", "presence", "expected"),
    [
        (None, Presence.UNKNOWN, Forget()),
        (replace(RUNNING, started=False, config=STOPPED), Presence.UNKNOWN, Forget()),
        (STOPPING, Presence.PRESENT, AwaitStopped(Presence.PRESENT)),
        (STOPPING, Presence.UNKNOWN, AwaitStopped(Presence.UNKNOWN)),
        (STOPPING, Presence.ABSENT, Forget()),
    ],
)
def test_deletion_waits_until_the_tasks_are_seen_to_be_gone(
    running: Running | None, presence: Presence, expected: object
) -> None:
    assert decide(view(running=running, deleting=True, presence=presence), NOW) == expected


def test_deletion_begins_with_a_stop_whatever_the_layers_say() -> None:
    decision = decide(view(INVALID, deleting=True, presence=Presence.ABSENT), NOW)
    assert isinstance(decision, Commit)
    assert decision.stopping
    assert not decision.asks_for_tasks
    assert decision.config == {**RUNNING.config, "desired_state": "stopped"}


def test_a_job_that_is_no_longer_deleted_starts_again() -> None:
    decision = decide(view(running=STOPPING, revision=7), NOW)
    assert isinstance(decision, Commit)
    assert not decision.stopping
    assert decision.asks_for_tasks


def test_failures_back_off_then_end_in_quarantine() -> None:
    """1. Five attempts fail, each later than the one before. 2. Then nothing is tried any more."""
    job, now, waits = view(INVALID), NOW, []
    for _ in range(QUARANTINE_AFTER_FAILURES):
        decision = decide(job, now)
        assert isinstance(decision, Fail)
        record = effects(job, decision, now).record
        assert record is not None
        job = replace(job, sync=record)
        if record.next_attempt_at is not None:
            assert decide(job, record.next_attempt_at - timedelta(seconds=1)) == BackingOff()
            waits.append((record.next_attempt_at - now).total_seconds())
            now = record.next_attempt_at
    assert waits == [30, 60, 120, 240]
    assert job.sync is not None
    assert job.sync.state is JobState.QUARANTINED
    assert decide(job, now + timedelta(days=365)) == BackingOff()
    assert effects(job, BackingOff(), now).record is None


@pytest.mark.parametrize(
    "released",
    [
        {"revision": 7},
        {"sync": SyncRecord(JobState.PENDING, 6, failures=0)},
    ],
)
def test_a_new_revision_or_a_release_ends_quarantine(released: dict[str, Any]) -> None:
    quarantined = view(sync=SyncRecord(JobState.QUARANTINED, 6, failures=5))
    assert decide(quarantined, NOW) == BackingOff()
    decision = decide(replace(quarantined, **released), NOW)
    assert isinstance(decision, Commit)


def test_a_new_revision_that_fails_too_counts_from_one() -> None:
    job = view(INVALID, revision=7, sync=SyncRecord(JobState.QUARANTINED, 6, failures=5))
    record = effects(job, decide(job, NOW), NOW).record
    assert record is not None
    assert (record.state, record.failures) == (JobState.FAILED, 1)


@pytest.mark.parametrize(("failures", "seconds"), [(1, FIRST_BACKOFF_SECONDS), (3, 120), (50, LONGEST_BACKOFF_SECONDS)])
def test_backoff(failures: int, seconds: float) -> None:
    assert backoff_seconds(failures) == seconds


def test_expected_config_merges_from_the_bottom_up() -> None:
    found = expected_config(
        (make_layer(), {"priority": 1, "labels": {"a": "1"}}, {"priority": 2, "labels": {"b": "2"}})
    )
    assert found == make_config(priority=2, labels={"a": "1", "b": "2"})


def test_expected_config_says_why_it_cannot_be_used() -> None:
    found = expected_config((make_layer(), {"task_count": 9}))
    assert isinstance(found, Unusable)
    assert found.field == "task_count"
    assert isinstance(expected_config(()), Unusable)


CONFIGS = st.fixed_dictionaries(
    {},
    optional={
        "task_count": st.integers(1, 8),
        "priority": st.integers(0, 3),
        "trigger_interval_seconds": st.sampled_from([1.0, 5.0]),
        "desired_state": st.sampled_from(["running", "stopped"]),
        "state_backend": st.sampled_from(["heap", "rocksdb"]),
        "threads_per_task": st.integers(1, 2),
    },
).map(lambda overrides: make_config(**overrides))
RUNNINGS = st.none() | st.builds(
    Running,
    config=CONFIGS,
    revision=st.integers(1, 8),
    generation=st.integers(1, 5),
    restarts=st.integers(0, 2),
    stopping=st.booleans(),
    started=st.booleans(),
    commit_number=st.integers(1, 9),
)
RECORDS = st.none() | st.builds(
    SyncRecord,
    state=st.sampled_from(JobState),
    revision=st.integers(1, 8),
    failures=st.integers(0, 6),
    next_attempt_at=st.none() | st.sampled_from([NOW - timedelta(hours=1), NOW + timedelta(hours=1)]),
)
VIEWS = st.builds(
    JobView,
    job=st.just("j"),
    revision=st.just(8),
    restarts=st.integers(0, 3),
    deleting=st.booleans(),
    expected=CONFIGS | st.just(INVALID),
    running=RUNNINGS,
    sync=RECORDS,
    last_generation=st.integers(0, 5),
    presence=st.sampled_from(Presence),
)


@given(VIEWS)
def test_a_job_that_ran_never_gets_a_config_its_checkpoints_do_not_fit(job: JobView) -> None:
    decision = decide(job, NOW)
    if isinstance(decision, Commit) and job.running is not None and job.running.started:
        assert classify(job.running.config, decision.config).kind <= ChangeKind.RESTART
        assert decision.generation == job.running.generation


@given(VIEWS)
def test_nothing_is_forgotten_unless_its_tasks_are_known_to_be_gone(job: JobView) -> None:
    if decide(job, NOW) == Forget():
        assert job.deleting
        never_started = job.running is None or not job.running.started
        assert never_started or (job.presence is Presence.ABSENT and job.running is not None and job.running.stopping)


@given(VIEWS)
def test_what_is_committed_was_expected_runs_already_or_is_a_stop(job: JobView) -> None:
    decision = decide(job, NOW)
    if isinstance(decision, Commit):
        runs_already = job.running is not None and decision.config == job.running.config
        assert decision.config == job.expected or runs_already or (decision.stopping and not decision.asks_for_tasks)
        assert job.running is None or decision.revision >= job.running.revision
        assert job.running is not None or decision.generation > job.last_generation


@given(VIEWS)
def test_deciding_again_after_a_commit_ends(job: JobView) -> None:
    """A commit brings the job to a point where the next decision is no commit: rounds do not go on for ever."""
    decision = decide(job, NOW)
    if not isinstance(decision, Commit):
        return
    number = 100
    running = Running(
        decision.config,
        decision.revision,
        decision.generation,
        decision.restarts,
        decision.stopping,
        decision.asks_for_tasks or (job.running is not None and job.running.started),
        number,
    )
    after = replace(job, running=running, sync=effects(job, decision, NOW).record or job.sync)
    assert not isinstance(decide(after, NOW), Commit)
