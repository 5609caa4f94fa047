"""`decide` and the sync states that it leads to: tables of what follows."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from penstock.config.model import ChangeKind
from penstock.config.validate import check_merged
from penstock.control.errors import InvalidConfig
from penstock.model.jobs import JobState
from services.state_syncer.decide.change import awaits_sink, decide
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
HOUR = timedelta(hours=1)
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
    assert "penstock jobs apply NEW FILE" in decision.detail


@pytest.mark.parametrize("other", [{"task_count": 4}, {"state_backend": "rocksdb"}])
def test_a_stop_waits_for_nothing_else_that_was_written(other: dict[str, Any]) -> None:
    """The tasks stop with what they run, and the rest of the write waits or fails as it would without the stop."""
    wanted = changed(desired_state="stopped", **other)
    first = decide(view(wanted, restarts=1), NOW)
    assert isinstance(first, Commit)
    assert (first.config, first.revision, first.restarts, first.stopping) == (STOPPED, 5, 1, False)
    record = effects(view(wanted), first, NOW).record
    assert record is not None
    assert record.fields == tuple(other)
    stopped = replace(RUNNING, config=STOPPED, restarts=1)
    then = decide(view(wanted, stopped, restarts=1), NOW)
    if isinstance(then, Fail):
        assert (record.state, record.failures) == (JobState.FAILED, 1)
    else:
        assert isinstance(then, StartRescale)
        assert (record.state, then.copies) == (JobState.WAITING, False)


def test_a_job_that_backs_off_or_is_quarantined_stops() -> None:
    for sync in (SyncRecord(JobState.QUARANTINED, 6), SyncRecord(JobState.FAILED, 6, next_attempt_at=NOW + HOUR)):
        waiting = view(changed(desired_state="stopped", task_count=4), sync=sync)
        decision = decide(waiting, NOW)
        assert isinstance(decision, Commit)
        assert (decision.config, decision.then) == (STOPPED, BackingOff())
        assert effects(waiting, decision, NOW).record is None, "it still backs off"


def test_a_stop_does_not_wait_for_a_query_that_is_checked_first() -> None:
    wanted = changed(desired_state="stopped", query={"sql": "SELECT key, upper(value) AS value FROM events"})
    first = decide(view(wanted), NOW)
    assert isinstance(first, Commit)
    assert (first.config, awaits_sink(view(wanted), first)) == (STOPPED, False)
    found = effects(view(wanted), first, NOW)
    assert found.record is not None
    assert (found.record.state, found.soon) == (JobState.WAITING, True)
    then = decide(view(wanted, replace(RUNNING, config=STOPPED)), NOW)
    assert isinstance(then, Commit)
    assert then.config == wanted


@pytest.mark.parametrize(
    ("other", "starts"),
    [
        ({"task_count": 4}, True),
        ({"task_count": 4, "priority": 7}, True),
        ({"task_count": 4, "trigger_interval_seconds": 9.0}, False),
        ({"task_count": 4, "package": {"name": "builtin", "version": "1"}}, False),
        ({"state_backend": "rocksdb"}, False),
    ],
)
def test_a_stopped_job_starts_with_its_size_while_another_one_cannot_be_had(
    other: dict[str, Any], starts: bool
) -> None:
    """Not when more differs: what it ran may be what somebody stopped it for."""
    stopped = replace(RUNNING, config=STOPPED)
    backing_off = SyncRecord(JobState.FAILED, 6, failures=2, next_attempt_at=NOW + HOUR)
    decision = decide(view(changed(**other), stopped, sync=backing_off), NOW)
    if not starts:
        assert decision == BackingOff()
    else:
        assert isinstance(decision, Commit)
        assert (decision.config, decision.revision, decision.then) == (CONFIG, 5, BackingOff())
    assert decide(view(changed(**other, desired_state="stopped"), stopped, sync=backing_off), NOW) == BackingOff()


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


def test_a_job_that_breaks_a_newer_rule_between_fields_has_its_expected_config() -> None:
    """The Job Service takes writes to it, as to stop it."""
    broken = make_layer(dead_letter_topic="events")
    with pytest.raises(InvalidConfig, match="also an input"):
        check_merged(broken)
    found = expected_config((broken, {"desired_state": "stopped"}))
    assert found == STOPPED | {"dead_letter_topic": "events"}


def test_expected_config_says_why_it_cannot_be_used() -> None:
    found = expected_config((make_layer(), {"task_count": 9}))
    assert isinstance(found, Unusable)
    assert found.field == "task_count"
    for unusable in ((), (make_layer(), "text")):
        assert isinstance(expected_config(unusable), Unusable)
