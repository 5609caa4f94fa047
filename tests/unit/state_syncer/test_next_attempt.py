"""Who carries out a host task, and what follows from an attempt: tables over policies and outcomes."""

from __future__ import annotations

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.config.declare import Model
from penstock.spark.host.handlers import HANDLERS
from penstock.tasks.host_request import HostRequest
from penstock.tasks.host_task import POLICIES, REMOVE_GENERATION, REMOVE_SAVEPOINT, SEAL, Policy, Request
from penstock.tasks.redistribution import RedistributionReport
from services.state_syncer.decide.facts import LONGEST_SECONDS
from services.state_syncer.decide.progress import Step
from services.state_syncer.host_tasks.next_attempt import (
    Ask,
    Assign,
    AttemptDecision,
    Candidates,
    GiveUp,
    HostTaskStep,
    LiveContainer,
    NoContainer,
    Retry,
    next_attempt,
    pick,
)
from services.state_syncer.host_tasks.outcomes import AttemptKey, Done, Failed, Lost, Outcome, Unanswered

PLAIN = Policy()
NEW = HostTaskStep(AttemptKey("j", "kind", 1, None))
ASKED = HostTaskStep(AttemptKey("j", "kind", 1, "a"))
REPORT = RedistributionReport(state_rows=3)


def candidates(**loads: int) -> Candidates:
    """Containers by name, each asked for so many host tasks."""
    places = {name: LiveContainer(f"http://{name}", frozenset({"x"})) for name in loads}
    asked = [AttemptKey("other", "kind", n, name) for name, load in loads.items() for n in range(load)]
    return Candidates(places, asked)


@pytest.mark.parametrize(
    ("task", "outcome", "policy", "decision"),
    [
        (NEW, Unanswered(), PLAIN, Assign("b")),
        (NEW._replace(attempts=1), Unanswered(), PLAIN, Assign("a")),
        (NEW, Unanswered(), Policy(at_once=3), NoContainer()),
        (NEW, Unanswered(), Policy(at_once=4), Assign("b")),
        (ASKED, Unanswered(), PLAIN, Ask("a")),
        (ASKED, Done(REPORT), PLAIN, Done(REPORT)),
        (ASKED, Failed("no"), PLAIN, Retry("no")),
        (ASKED, Failed("no"), Policy(backs_off=True), Retry("no", after_seconds=30.0)),
        (ASKED._replace(attempts=2), Failed("no"), Policy(backs_off=True), Retry("no", after_seconds=120.0)),
        (ASKED, Failed("no"), Policy(attempts=1), GiveUp("no")),
        (ASKED._replace(attempts=3), Failed("no"), Policy(attempts=5), Retry("no")),
        (ASKED._replace(attempts=4), Failed("no"), Policy(attempts=5), GiveUp("no")),
        (ASKED, Lost("silent"), Policy(attempts=1), Retry("silent", lost=True)),
        (ASKED, Lost("silent"), Policy(losses=1), GiveUp("silent", lost=True)),
        (ASKED._replace(attempts=1), Lost("s"), Policy(losses=3), Retry("s", lost=True)),
        (ASKED._replace(attempts=2), Lost("s"), Policy(losses=3), GiveUp("s", lost=True)),
        (ASKED._replace(key=ASKED.key._replace(losses=1)), Lost("s"), Policy(losses=3), Retry("s", lost=True)),
        (ASKED._replace(key=ASKED.key._replace(losses=2)), Lost("s"), Policy(losses=3), GiveUp("s", lost=True)),
        (ASKED._replace(key=ASKED.key._replace(container="z")), Unanswered(), PLAIN, Retry("z is lost", lost=True)),
        (ASKED._replace(key=ASKED.key._replace(container="z")), Done(), PLAIN, Done()),
    ],
)
def test_the_next_step(task: HostTaskStep, outcome: Outcome, policy: Policy, decision: AttemptDecision) -> None:
    assert next_attempt(task, outcome, candidates(a=2, b=1), policy) == decision


def test_without_containers_nobody_is_asked() -> None:
    assert next_attempt(NEW, Unanswered(), candidates(), PLAIN) == NoContainer()


def test_who_is_assigned_counts_for_the_next() -> None:
    found = candidates(a=0, b=0)
    assert [next_attempt(NEW, Unanswered(), found, PLAIN) for _ in range(3)] == [Assign("a"), Assign("b"), Assign("a")]
    assert found.under_way["kind"] == 3


@pytest.mark.parametrize(
    ("loads", "avoid", "ran_on", "chosen"),
    [
        ({"a": 1, "b": 0}, None, (), "b"),
        ({"b": 0, "a": 0}, None, (), "a"),
        ({"a": 0, "b": 5}, "a", (), "b"),
        ({"a": 0}, "a", (), "a"),
        ({"a": 0, "b": 0}, None, ("b",), "b"),
        ({"a": 0, "b": 1}, None, ("b",), "a"),
        ({"a": 0, "c": 0}, None, ("b",), "a"),
    ],
)
def test_who_is_picked(loads: dict[str, int], avoid: str | None, ran_on: tuple[str, ...], chosen: str) -> None:
    assert pick(NEW._replace(avoid=avoid, ran_on=ran_on), candidates(**loads)) == chosen


@pytest.mark.parametrize(("selector", "chosen"), [(None, "a"), ("y", "b"), ("y,disk=ssd", "c"), ("z", "a")])
def test_one_that_meets_the_selector_if_any_does(selector: str | None, chosen: str) -> None:
    offers = {"a": {"x"}, "b": {"y"}, "c": {"y", "disk=ssd"}}
    places = {name: LiveContainer(f"http://{name}", frozenset(has)) for name, has in offers.items()}
    found = Candidates(places)
    for _ in range(5):
        found.add("kind", "c")
    assert pick(NEW._replace(selector=selector), found) == chosen


@given(st.sampled_from(sorted(POLICIES)), st.integers(0, 9), st.integers(0, 9))
def test_every_policy_comes_to_an_end_or_tries_again(kind: str, attempts: int, losses: int) -> None:
    task = ASKED._replace(attempts=attempts, key=ASKED.key._replace(kind=kind, losses=losses))
    for outcome in (Failed("x"), Lost("x")):
        assert isinstance(next_attempt(task, outcome, candidates(a=0), POLICIES[kind]), Retry | GiveUp)


def test_only_what_cannot_be_left_out_is_tried_for_ever() -> None:
    """A plan that has begun to seal only goes forward. Files that nobody needs stay until they are removed."""
    endless = {SEAL, REMOVE_SAVEPOINT, REMOVE_GENERATION}
    for bound in ("attempts", "losses"):
        assert {kind for kind, policy in POLICIES.items() if getattr(policy, bound) is None} == endless


def test_only_a_redistribution_may_be_given_up_before_its_time_is_up() -> None:
    """The plan of a rescale has a time limit of its own; a seal, which is never given up, goes elsewhere soon."""
    assert POLICIES["seal"].longest_seconds <= 300
    assert POLICIES["redistribute"].longest_seconds >= LONGEST_SECONDS[Step.REDISTRIBUTE]


def test_every_kind_of_the_union_has_a_policy_and_a_handler() -> None:
    """The union, the policies and the handlers are the only lists of kinds."""
    union: tuple[type[HostRequest], ...] = get_args(get_args(Request)[0])
    kinds = [request.model_fields["kind"].default for request in union]
    assert sorted(kinds) == sorted(POLICIES) == sorted(HANDLERS)
    assert all(request.Report is None or issubclass(request.Report, Model) for request in union)
