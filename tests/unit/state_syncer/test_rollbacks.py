"""What becomes of the layer `rollback`: a table of layers and versions."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.tasks.rollout import LayerContent, LeafChange, Rejected
from services.state_syncer.rollback.decide import Forget, Keep, Refusal, TakenBack, Write, decide_rollback

VERSION = LeafChange(path=("package", "version"), old="1", new="2")
DIGEST = LeafChange(path=("package", "digest"), old=None, new="sha256:new")
QUERY = LeafChange(path=("query", "sql"), old="SELECT 1", new="SELECT 2")
BASE = {"package": {"version": "2", "digest": "sha256:new"}, "query": {"sql": "SELECT 2"}}
GOOD = {"package": {"version": "1", "digest": None}, "query": {"sql": "SELECT 1"}}
OTHER = {"package": {"version": "3"}}


def rejected(*leaves: LeafChange, version: int = 4) -> Rejected:
    found = leaves or (VERSION, DIGEST, QUERY)
    return Rejected(revision=6, leaves=found, wave=1, waves=3, task="j/0", error="no module", layer_version=version)


def decided(own: Any, version: int, *others: Any) -> Any:
    layers = [LayerContent(f"layer-{n}", config, 1) for n, config in enumerate((BASE, *others))]
    return decide_rollback(rejected(), [*layers, LayerContent("rollback", own, version)])


@pytest.mark.parametrize(
    ("own", "version", "others", "decision"),
    [
        (GOOD, 5, (), TakenBack()),
        (None, 5, (), Forget()),
        (None, 4, (OTHER,), Forget()),
        (None, 9, (OTHER,), Forget()),
        ({"package": {"version": "0"}}, 7, (), TakenBack()),
        (BASE, 5, (None, {"priority": 3}), Keep()),
    ],
)
def test_nothing_is_written(own: Any, version: int, others: Any, decision: Any) -> None:
    assert decided(own, version, *others) == decision


@pytest.mark.parametrize("version", [4, 5])
@pytest.mark.parametrize(("others", "decision"), [((), Keep()), ((OTHER,), Forget())])
def test_a_halted_rollout_writes_nothing_and_is_forgotten_with_the_next_package(
    others: Any, decision: Any, version: int
) -> None:
    layers = [LayerContent(f"layer-{n}", config, 1) for n, config in enumerate((BASE, *others))]
    halted = rejected().model_copy(update={"goes_back": False})
    assert decide_rollback(halted, [*layers, LayerContent("rollback", None, version)]) == decision


@pytest.mark.parametrize("own", [{}, {"labels": {"a": "1"}}])
def test_a_layer_that_somebody_wrote_without_the_package_is_written_again(own: Any) -> None:
    """The rejected package is still asked for, so nothing was rolled back."""
    put = decided(own, 5, None)
    assert isinstance(put, Write)
    assert (put.config, put.version) == ({**own, **GOOD}, 5)


def test_it_is_written_while_it_has_the_version_that_it_had_when_the_package_was_rejected() -> None:
    put = decided(None, 4)
    assert isinstance(put, Write)
    assert (put.config, put.version) == (GOOD, 4)
    assert put.reason == ("package.version 2, package.digest sha256:new of revision 6: wave 1 of 3: j/0: no module")


def test_it_keeps_what_an_earlier_rollback_left_in_it() -> None:
    put = decided({"package": {"name": "flights"}}, 4)
    assert put.config == {**GOOD, "package": {**GOOD["package"], "name": "flights"}}


def test_a_layer_that_was_never_written_has_version_0() -> None:
    put = decide_rollback(rejected(VERSION, version=0), [LayerContent("base", {"package": {"version": "2"}}, 1)])
    assert isinstance(put, Write)
    assert put.version == 0


@pytest.mark.parametrize("others", [(OTHER,), ({"query": {"sql": "SELECT 3"}},)])
@pytest.mark.parametrize("version", [4, 5])
def test_it_is_dropped_once_another_package_or_query_is_asked_for(others: Any, version: int) -> None:
    drop = decided(GOOD, version, *others)
    assert isinstance(drop, Write)
    assert (drop.config, drop.version) == (None, version)


def test_a_default_counts_where_no_layer_says_anything() -> None:
    change = LeafChange(path=("package", "name"), old="flights", new="builtin")
    assert isinstance(decide_rollback(rejected(change, version=0), [LayerContent("base", {}, 1)]), Write)


@pytest.mark.parametrize(
    ("status", "times", "needs_people", "said"),
    [
        (401, 1, True, "Give the State Syncer a token"),
        (403, 1, True, "Give the State Syncer a token"),
        (422, 1, True, "Mend that, or give another package"),
        (409, 1, False, "It is tried again"),
        (409, 2, True, "It is tried again"),
        (503, 1, False, "It is tried again"),
        (503, 2, True, "It is tried again"),
    ],
)
def test_a_refusal_says_what_to_do(status: int, times: int, *, needs_people: bool, said: str) -> None:
    refusal = Refusal(status, "no.", times)
    assert (refusal.needs_people, refusal.why.startswith(f"no. {said}")) == (needs_people, True)


def test_pauses_double_and_have_a_limit() -> None:
    assert [Refusal(503, "", times).pause_seconds for times in (1, 2, 3, 99)] == [2, 4, 8, 300]
