"""Which old generations may go: a table, what must never be, and the next step of a deletion."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.tasks.host_task import REMOVE_GENERATION
from penstock.tasks.redistribution import GenerationRemoval
from services.state_syncer.decide.effects import backoff_seconds
from services.state_syncer.generations.rules import (
    ATTEMPT_SECONDS,
    Keep,
    Retention,
    UnusedGeneration,
    decide,
    key_of,
    may_go,
    request_of,
)
from services.state_syncer.host_tasks.next_attempt import (
    Ask,
    Assign,
    AttemptDecision,
    Candidates,
    LiveContainer,
    NoContainer,
    Retry,
)
from services.state_syncer.host_tasks.outcomes import AttemptKey, Done, Failed, Lost, Outcome, Unanswered

DAY = 86_400.0
RETENTION = Retention(count=1, seconds=DAY)
LEFT = UnusedGeneration(
    job="j",
    generation=3,
    container=None,
    attempts=0,
    attempted=False,
    running=5,
    forgotten=False,
    former=False,
    planned=False,
    copied=False,
    unused_seconds=DAY,
    newer=1,
)
ATTEMPTED = LEFT._replace(generation=6, attempted=True, unused_seconds=ATTEMPT_SECONDS, newer=0)
FORGOTTEN = LEFT._replace(running=None, forgotten=True, newer=0)
PLACES = {name: LiveContainer(f"http://{name}", frozenset()) for name in ("a", "b")}
OTHER = AttemptKey("other", REMOVE_GENERATION, 1, "a")


@pytest.mark.parametrize(
    ("seen", "goes"),
    [
        (LEFT, True),
        (LEFT._replace(unused_seconds=DAY - 1), False),
        (LEFT._replace(newer=0), False),
        (LEFT._replace(planned=True), False),
        (LEFT._replace(copied=True), False),
        (LEFT._replace(generation=5), False),
        (LEFT._replace(generation=6), False),
        (ATTEMPTED, True),
        (ATTEMPTED._replace(generation=4), True),
        (ATTEMPTED._replace(unused_seconds=ATTEMPT_SECONDS - 1), False),
        (ATTEMPTED._replace(planned=True), False),
        (ATTEMPTED._replace(generation=5), False),
        (LEFT._replace(former=True, newer=0), True),
        (LEFT._replace(former=True, newer=0, unused_seconds=DAY - 1), False),
        (LEFT._replace(former=True, newer=0, planned=True), False),
        (FORGOTTEN, True),
        (FORGOTTEN._replace(attempted=True), True),
        (FORGOTTEN._replace(unused_seconds=DAY - 1), False),
        (FORGOTTEN._replace(copied=True), False),
        (FORGOTTEN._replace(forgotten=False), False),
    ],
)
def test_the_rule(seen: UnusedGeneration, goes: bool) -> None:
    assert may_go(seen, RETENTION) is goes


ANY = st.builds(
    UnusedGeneration,
    job=st.just("j"),
    generation=st.integers(1, 9),
    container=st.sampled_from([None, "a", "gone"]),
    attempts=st.integers(0, 9),
    attempted=st.booleans(),
    running=st.none() | st.integers(1, 9),
    forgotten=st.booleans(),
    planned=st.booleans(),
    copied=st.booleans(),
    unused_seconds=st.sampled_from([0.0, ATTEMPT_SECONDS, DAY, 9 * DAY]),
    newer=st.integers(0, 3),
)


@given(ANY, st.integers(0, 3))
def test_what_is_used_is_unknown_or_came_later_never_goes(seen: UnusedGeneration, count: int) -> None:
    retention = replace(RETENTION, count=count)
    if not may_go(seen, retention):
        for outcome in (Unanswered(), Failed("x"), Lost("x")):
            assert decide(seen, retention, Candidates(PLACES), outcome) == Keep()
        return
    assert not seen.planned
    assert not seen.copied
    assert seen.generation != seen.running
    assert seen.unused_seconds >= ATTEMPT_SECONDS
    assert (seen.running is None) <= seen.forgotten
    if seen.running is not None and not seen.attempted:
        assert seen.generation < seen.running
        assert seen.former or seen.newer >= count
        assert seen.unused_seconds >= DAY


@given(ANY)
def test_time_never_takes_back_what_may_go(seen: UnusedGeneration) -> None:
    later = seen._replace(unused_seconds=seen.unused_seconds + DAY, newer=seen.newer + 1)
    assert may_go(seen, RETENTION) <= may_go(later, RETENTION)


ASKED = LEFT._replace(container="a", attempts=1)


@pytest.mark.parametrize(
    ("seen", "places", "outcome", "decision"),
    [
        (LEFT, PLACES, Unanswered(), Assign("b")),
        (LEFT._replace(attempts=1), PLACES, Unanswered(), Assign("a")),
        (LEFT, {}, Unanswered(), NoContainer()),
        (ASKED, PLACES, Unanswered(), Ask("a")),
        (ASKED, {"b": PLACES["b"]}, Unanswered(), Retry("a is lost", lost=True, after_seconds=30.0)),
        (ASKED, PLACES, Lost("silent"), Retry("silent", lost=True, after_seconds=30.0)),
        (ASKED, PLACES, Failed("in use"), Retry("in use", after_seconds=30.0)),
        (ASKED, PLACES, Done(), Done()),
        (ASKED._replace(planned=True), PLACES, Done(), Done()),
        (ASKED._replace(planned=True), PLACES, Unanswered(), Keep()),
        (LEFT._replace(planned=True), PLACES, Unanswered(), Keep()),
    ],
)
def test_the_next_step(
    seen: UnusedGeneration, places: dict[str, LiveContainer], outcome: Outcome, decision: AttemptDecision | Keep
) -> None:
    assert decide(seen, RETENTION, Candidates(places, [OTHER]), outcome) == decision


def test_what_a_container_is_asked() -> None:
    assert request_of(LEFT) == GenerationRemoval(job="j", generation=3)
    assert request_of(FORGOTTEN) == GenerationRemoval(job="j", generation=3, forgotten=True)
    assert key_of(ASKED) != key_of(ASKED._replace(attempts=2))


def test_pauses_double_up_to_an_hour() -> None:
    assert [backoff_seconds(attempts) for attempts in (1, 2, 8, 5000)] == [30.0, 60.0, 3600.0, 3600.0]
