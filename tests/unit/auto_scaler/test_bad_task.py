"""A single task that is slow where it runs: it moves, once, and only when nothing else explains it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from services.auto_scaler.decide.decision import DecisionInputs, replay
from services.auto_scaler.decide.explain import as_stored, sentences
from services.auto_scaler.decide.model import Action, JobUpdate, PastMove, ScalerState
from services.auto_scaler.decide.symptoms import JobSymptoms, WorstTask
from tests.support.auto_scaler import NOW, decided, job, situation, state, symptoms

THREE = job(3, key_groups=6)
EVEN = (10.0,) * 6
APART = ("a", "b", "c")
MOVED = {"index": 1, "container": "b"}


def slow(lag: float = 200.0, others: float = 0.0, share: float = 0.2) -> JobSymptoms:
    """Of three tasks the one of index 1."""
    worst = WorstTask(index=1, lag_seconds=lag, others_lag_seconds=others, rate_share=share)
    return symptoms(lag, worst=worst, tasks_expected=3, tasks_measured=3, processed_rows_per_second=220.0)


def known(**values: Any) -> ScalerState:
    return state(**{"traffic": EVEN, "containers": APART, "declared_task_count": 3} | values)


BAD: dict[str, tuple[JobSymptoms, ScalerState, bool]] = {
    "slow, alone, with as much input": (slow(), known(), True),
    "half as fast": (slow(share=0.5), known(), True),
    "a little slow": (slow(share=0.51), known(), False),
    "the others lag, too": (slow(others=46.0), known(), False),
    "the others lag a little": (slow(others=45.0), known(), True),
    "more comes in to it": (slow(), known(traffic=(10.0, 10.0, 14.0, 14.0, 10.0, 10.0)), False),
    "hardly more comes in to it": (slow(), known(traffic=(10.0, 10.0, 13.0, 13.0, 10.0, 10.0)), True),
    "what comes in is not known": (slow(), known(traffic=None), False),
    "of most key groups it is not known": (slow(), known(traffic=(10.0, 10.0, None, None, None, None)), False),
    "a sibling is well on its container": (slow(), known(containers=("b", "b", "c")), False),
    "others share one": (slow(), known(containers=("a", "b", "a")), True),
    "one is nowhere": (slow(), known(containers=("a", "b", None)), False),
    "nobody knows where they are": (slow(), known(containers=None), False),
}


@pytest.mark.parametrize(("found", "values", "moves"), BAD.values(), ids=BAD.keys())
def test_a_single_bad_task_moves(found: JobSymptoms, values: ScalerState, moves: bool) -> None:
    decision = decided(found, THREE, values)
    assert (decision.action is Action.MOVE_TASK) is moves
    assert (decision.change == MOVED) is moves


def move(minutes_ago: int, index: int = 1, *, refused: bool = False) -> PastMove:
    return PastMove(at=NOW - timedelta(minutes=minutes_ago), index=index, refused=refused)


AGAIN: dict[str, tuple[dict[str, Any], bool]] = {
    "ten minutes ago": ({"moves": (move(10),)}, False),
    "a day ago": ({"moves": (move(1440),)}, True),
    "after another one": ({"moves": (move(5, 0), move(20))}, False),
    "refused an hour ago": ({"moves": (move(60, refused=True),)}, True),
    "another task": ({"moves": (move(10, 2),)}, True),
    "before an update": ({"moves": (move(10),), "update": JobUpdate(at=NOW - timedelta(minutes=7), author="a")}, True),
}


@pytest.mark.parametrize(("values", "moves"), AGAIN.values(), ids=AGAIN.keys())
def test_a_move_that_did_not_help_is_not_repeated_but_asked_about(values: dict[str, Any], moves: bool) -> None:
    decision = decided(slow(), THREE, known(**values))
    assert (decision.change == MOVED, decision.untriaged) == (moves, not moves)
    early = decided(slow(lag=60.0), THREE, known(**values))
    assert not early.untriaged


def test_after_a_refusal_the_job_grows() -> None:
    decision = decided(slow(), THREE, known(moves=(move(10, refused=True),)))
    assert decision.action is Action.INCREASE_TASKS
    assert "the move of task 1 was refused at " in decision.reason


@pytest.mark.parametrize(("share", "kept"), [(0.2, EVEN), (0.9, None)])
def test_traffic_is_stored_when_the_answer_depends_on_it(share: float, kept: tuple[float, ...] | None) -> None:
    """1. What was decided is decided again from what is stored. 2. People are told of it anyway."""
    inputs = DecisionInputs(**situation(slow(share=share), THREE, known())._asdict())
    decision = inputs.decide()
    stored = as_stored(inputs, decision)
    assert stored["state"]["traffic"] == (None if kept is None else list(kept))
    assert replay(stored) == decision
    assert any(said.startswith("Key groups: 6 of 6 are measured") for said in stored["why"])


def test_what_is_said_of_it() -> None:
    inputs = DecisionInputs(**situation(slow(), THREE, known(moves=(move(1500), move(90, 2, refused=True))))._asdict())
    said = sentences(inputs, inputs.decide())
    assert "Last move: of task 1 at 2026-01-09 11:00 UTC." in said
    assert "Last move: of task 2 at 2026-01-10 10:30 UTC, which was refused." in said
    assert said[-1] == (
        "A task moves to another container: lag of 200 s is over the SLO of 90 s; task 1 does 20% of what the others "
        "do, which lag 0 s at most, and no more comes in to it; it is the only one of them on b, and leaves it."
    )
