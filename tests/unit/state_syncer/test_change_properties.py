"""`decide`: properties of what must never follow, whatever is written and whatever runs."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from penstock.config.classify import classify
from penstock.config.model import ChangeKind
from penstock.model.jobs import JobState
from services.state_syncer.decide.change import decide, stopped_config
from services.state_syncer.decide.decisions import Commit, Forget
from services.state_syncer.decide.effects import effects
from services.state_syncer.decide.observe import Presence
from services.state_syncer.decide.view import JobView, Running, SyncRecord, Unusable
from tests.support.store.jobs import make_config

NOW = datetime(2026, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)
INVALID = Unusable("task_count is 9 but there are 8 key groups", "task_count")
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
    next_attempt_at=st.none() | st.sampled_from([NOW - HOUR, NOW + HOUR]),
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


def _keeps_all_but_the_state(job: JobView, decision: Commit) -> bool:
    """Whether a commit stops or starts a job with the configuration that its tasks had."""
    return job.running is not None and stopped_config(decision.config) == stopped_config(job.running.config)


@given(VIEWS)
def test_what_is_committed_was_expected_or_stops_or_starts_what_runs(job: JobView) -> None:
    decision = decide(job, NOW)
    if isinstance(decision, Commit):
        assert decision.config == job.expected or _keeps_all_but_the_state(job, decision)
        if job.running is not None and not job.running.asks_for_tasks and decision.asks_for_tasks:
            assert not isinstance(job.expected, Unusable)
            assert job.expected["desired_state"] == "running", "only what is to run is started"
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
