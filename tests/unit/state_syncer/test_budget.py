"""How many jobs may be disrupted at once, and which ones come first."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.model.jobs import JobState
from services.state_syncer.decide.budget import AdmissionQueue, Budget, Candidate, Queue, Room, put_off
from services.state_syncer.decide.decisions import Commit, Poll, Record, StartRescale, StartRollout, Wait
from services.state_syncer.decide.progress import Plan, Progress, Step
from services.state_syncer.decide.view import JobView, Running, SyncRecord
from services.state_syncer.decide.waves import Rolling, Rollout

NOW = datetime(2026, 1, 1, tzinfo=UTC)
ROLLOUT = Rollout(steps=(), revision=1, restarts=0, fields=(), leaves=(), ends=(1,), begun_at=NOW, step_at=NOW)

PLAN = Plan(step=Step.QUIESCE, revision=1, restarts=0, config={}, fields=(), begun_at=NOW, step_at=NOW)


def candidate(job: str, priority: int = 0, revision: int = 1) -> Candidate[StartRescale]:
    config: dict[str, Any] = {"priority": priority}
    return Candidate(JobView(job, revision, 0, False, expected=config), StartRescale(Commit(config, revision, 1, 0)))


@pytest.mark.parametrize(
    ("budget", "jobs", "limit"),
    [
        (Budget(0.1, 20), 1, 1),
        (Budget(0.1, 20), 0, 1),
        (Budget(0.1, 20), 50, 5),
        (Budget(0.1, 20), 10_000, 20),
        (Budget(1.0, 3), 10, 3),
    ],
)
def test_the_smaller_of_share_and_count_and_at_least_one(budget: Budget, jobs: int, limit: int) -> None:
    assert budget.room(jobs, rollouts=1, rescales=3, of_stopped=1, copies=4) == (limit, limit - 3, 20, 17, 20, 16, 1)


CANDIDATES = st.lists(
    st.tuples(st.sampled_from("abcdefgh"), st.integers(0, 2), st.integers(1, 3)), unique_by=lambda entry: entry[0]
)


@given(CANDIDATES, st.integers(-1, 4))
def test_priority_goes_first_then_the_oldest_write_then_the_name(entries: list[Any], room: int) -> None:
    queue = Queue(room)
    late = [queue.offer(candidate(*entry)) for entry in entries]
    picked = [each.view.job for each in queue.picked]
    order = [job for job, _, _ in sorted(entries, key=lambda entry: (-entry[1], entry[2], entry[0]))]
    assert picked == order[: max(0, room)]
    assert {each.view.job for each in late if each is not None} == set(order[max(0, room) :])


def copying(job: str, priority: int = 0, revision: int = 1) -> Candidate[StartRescale]:
    """A job whose tasks run while its state is copied."""
    found = candidate(job, priority, revision)
    return found._replace(start=replace(found.start, copies=True))


def copied(job: str, priority: int = 0, revision: int = 1) -> Candidate[Any]:
    """A job whose state is copied, and whose tasks are to take no more rows: what it runs has no priority."""
    config: dict[str, Any] = {"priority": priority}
    plan = PLAN.model_copy(update={"config": config})
    step = Record(plan, Commit({"priority": 0}, revision, 1, 0, quiescing=True), disrupts=True)
    return Candidate(JobView(job, revision, 0, False, expected=config), step)


def upgrade(job: str, priority: int = 0, revision: int = 1) -> Candidate[Any]:
    config: dict[str, Any] = {"priority": priority}
    commit = Commit(config, revision, 1, 0)
    return Candidate(JobView(job, revision, 0, False, expected=config), StartRollout(commit))


def turns(room: Room, *candidates: Candidate[Any]) -> tuple[list[str], set[str]]:
    """Who may begin, in order, and who must wait."""
    found = AdmissionQueue(room)
    late = [found.offer(each) for each in candidates]
    begin, later = found.picked()
    return [each.view.job for each in begin], {each.view.job for each in (*late, *later) if each is not None}


def test_rescales_and_rollouts_share_one_order_and_one_limit() -> None:
    waiting = (upgrade("a"), candidate("b", priority=1), upgrade("c", priority=2), candidate("d"))
    assert turns(Room(3, 3, 20, 20), *waiting) == (["c", "b", "a"], {"d"})
    assert turns(Room(3, 0, 20, 20), *waiting) == ([], {"a", "b", "c", "d"})


def test_rescales_have_a_limit_more() -> None:
    waiting = (candidate("a"), candidate("b"), upgrade("c"))
    assert turns(Room(3, 3, 1, 1), *waiting) == (["a", "c"], {"b"})


def test_a_release_leaves_room_for_rescales_that_wait() -> None:
    """The release is older than the rescales, and it alone would fill the room."""
    release = [upgrade(f"a{number}") for number in range(6)]
    rescales = [candidate(f"b{number}", revision=9) for number in range(6)]
    assert turns(Room(6, 6, 2, 2), *release, *rescales)[0] == ["a0", "a1", "a2", "a3", "b0", "b1"]
    assert turns(Room(6, 1, 2, 2), *release, *rescales)[0] == ["b0"]
    assert turns(Room(6, 1, 2, 1), *release, *rescales)[0] == ["b0"]
    assert turns(Room(6, 1, 2, 0), *release, *rescales)[0] == ["a0"]
    assert turns(Room(6, 6, 20, 20), *release, *rescales)[0] == ["a0", "a1", "a2", "b0", "b1", "b2"]
    assert turns(Room(6, 6, 2, 2), *release)[0] == [f"a{number}" for number in range(6)]


def test_a_job_that_waits_for_room_keeps_its_failures() -> None:
    """A rescale that fails each time it begins would never come to its quarantine otherwise."""
    waiting = candidate("a")
    failed = replace(waiting.view, sync=SyncRecord(JobState.FAILED, 1, failures=3))
    told = put_off(waiting._replace(view=failed), Room(1, 0, 20, 20))
    newer = put_off(waiting._replace(view=replace(failed, revision=2)), Room(1, 0, 20, 20))
    assert isinstance(told, Wait)
    assert isinstance(newer, Wait)
    assert (told.failures, newer.failures) == (3, 0)


def test_a_job_that_a_rollout_disrupts_already_needs_no_room_to_be_rescaled() -> None:
    view, begun = candidate("a")
    rolling = Candidate(replace(view, rolling=Rolling(ROLLOUT)), begun)
    assert turns(Room(1, 0, 20, 20), rolling, upgrade("b")) == (["a"], {"b"})


@pytest.mark.parametrize(
    ("candidate", "room", "why"),
    [
        (upgrade("a"), Room(5, 0, 2, 2), "no more than 5 jobs may be disrupted at once"),
        (candidate("a"), Room(5, 1, 1, 0), "no more than 1 job may be rescaled at once"),
        (candidate("a"), Room(1, 0, 20, 9), "no more than 1 job may be disrupted at once"),
        (copying("a"), Room(5, 5, 2, 2, 3, 0), "no more than 3 jobs may be copied at once"),
    ],
)
def test_who_waits_is_told_which_limit_holds(candidate: Candidate[Any], room: Room, why: str) -> None:
    told = put_off(candidate, room)
    assert isinstance(told, Wait)
    assert told.detail == f"waiting: {why}"


def test_a_rollout_that_leaves_its_room_to_a_rescale_is_told_so() -> None:
    """Four jobs may be disrupted, and three are: nobody should have to wonder why the fourth does not begin."""
    queue = AdmissionQueue(Room(4, 1, 20, 20))
    first, second = upgrade("a", priority=9), candidate("b")
    for each in (first, second):
        assert queue.offer(each) is None
    begun, late = queue.picked()
    assert ([each.view.job for each in begun], late, queue.kept_back) == (["b"], [first], {"a"})
    told = put_off(first, queue.room, is_kept=True)
    assert isinstance(told, Wait)
    assert told.detail == ("waiting: no more than 4 jobs may be disrupted at once, and rescales that wait come first")


def test_a_rescale_that_nobody_has_decided_about_is_told_both_limits() -> None:
    told = Room(4, 4, 20, 20, 20, 20).waits.for_turn
    assert told == "waiting: at once, at most 20 jobs may be copied and 4 jobs rescaled"


def stopped(waiting: Candidate[Any], desired_state: str) -> Candidate[Any]:
    """The same job, stopped."""
    running = Running({"desired_state": "stopped"}, 1, 1, 0, stopping=False, started=True, commit_number=1)
    view = replace(waiting.view, running=running, expected={"priority": 0, "desired_state": desired_state})
    return Candidate(view, waiting.start)


def test_a_stopped_job_needs_no_room_but_a_place() -> None:
    to_run, to_stay = stopped(candidate("a"), "running"), stopped(candidate("b", priority=9), "stopped")
    assert turns(Room(1, 0, 2, 2), to_run, to_stay, upgrade("c")) == (["b", "a"], {"c"})
    assert turns(Room(1, 0, 2, 1), to_run, to_stay) == (["b"], {"a"})
    told = put_off(to_run, Room(1, 0, 2, 1))
    assert isinstance(told, Wait)
    assert told.detail == "waiting: no more than 2 jobs may be rescaled at once"


def test_rescales_of_stopped_jobs_take_no_room_that_a_release_leaves_to_others() -> None:
    release = [upgrade(f"a{number}", priority=9) for number in range(4)]
    assert turns(Room(4, 4, 9, 5, of_stopped=4), *release, candidate("b"))[0] == ["a0", "a1", "a2", "b"]


def test_a_copy_needs_no_room_where_jobs_are_disrupted_but_a_place_of_its_own() -> None:
    waiting = (copying("a", revision=2), copying("b"), copying("c", priority=1), upgrade("d"))
    assert turns(Room(1, 0, 1, 0, 2, 2), *waiting) == (["c", "b"], {"a", "d"})
    assert turns(Room(1, 1, 1, 1, 2, 0), *waiting) == (["d"], {"a", "b", "c"})


def test_what_is_copied_goes_before_all_that_has_not_begun() -> None:
    """It takes the room, and the places of rescales, that it waited for; the usual order holds among several."""
    waiting = (candidate("a", priority=2), upgrade("b", priority=2), copied("d"), copied("c", priority=1, revision=3))
    assert turns(Room(2, 2, 20, 20), *waiting) == (["c", "d"], {"a", "b"})
    assert turns(Room(9, 9, 2, 2), *waiting) == (["c", "d", "b"], {"a"})
    assert turns(Room(9, 9, 1, 1), *waiting) == (["c", "b"], {"a", "d"})
    assert turns(Room(1, 1, 20, 20), *waiting) == (["c"], {"a", "b", "d"})
    assert turns(Room(1, 0, 20, 20), *waiting) == ([], {"a", "b", "c", "d"})


def test_what_is_copied_stays_as_it_was_recorded_while_it_has_no_room() -> None:
    waiting = copied("a")
    before = PLAN.model_copy(update={"step": Step.COPY})
    view = replace(waiting.view, progress=Progress(before, newest_generation=2))
    told = put_off(waiting._replace(view=view), Room(1, 0, 20, 20))
    assert told == Poll(before, "waiting: no more than 1 job may be disrupted at once")
