"""The state machine of a rescale: the facts that may be found about a step, and the legal moves. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from services.state_syncer.decide.progress import Step


class Fact(StrEnum):
    """What is found about the present step."""

    CHANGED = "the expected configuration changed"
    LATE = "it takes too long"
    NOT_GONE = "tasks are there, or it is unknown"
    GONE = "the tasks are gone"
    UNANSWERED = "the container has not finished"
    DONE = "the container has finished"
    FAILED = "the container failed"
    LOST = "the container is lost"
    GIVEN_UP = "the container is lost, as others were before"


class Move(StrEnum):
    """What is done about it."""

    STAY = "stay"
    REPLAN = "replan"
    ABORT = "abort"
    REDISTRIBUTE = "redistribute"
    ELSEWHERE = "elsewhere"
    SEAL = "seal"
    RETRY = "retry"
    COMMIT = "commit"


MOVES: Mapping[tuple[Step, Fact], Move] = {
    (Step.AWAIT_STOPPED, Fact.CHANGED): Move.REPLAN,
    (Step.AWAIT_STOPPED, Fact.LATE): Move.ABORT,
    (Step.AWAIT_STOPPED, Fact.NOT_GONE): Move.STAY,
    (Step.AWAIT_STOPPED, Fact.GONE): Move.REDISTRIBUTE,
    (Step.REDISTRIBUTE, Fact.CHANGED): Move.REPLAN,
    (Step.REDISTRIBUTE, Fact.LATE): Move.ABORT,
    (Step.REDISTRIBUTE, Fact.UNANSWERED): Move.STAY,
    (Step.REDISTRIBUTE, Fact.DONE): Move.SEAL,
    (Step.REDISTRIBUTE, Fact.FAILED): Move.ABORT,
    (Step.REDISTRIBUTE, Fact.LOST): Move.ELSEWHERE,
    (Step.REDISTRIBUTE, Fact.GIVEN_UP): Move.ABORT,
    (Step.SEAL, Fact.UNANSWERED): Move.STAY,
    (Step.SEAL, Fact.DONE): Move.COMMIT,
    (Step.SEAL, Fact.FAILED): Move.RETRY,
    (Step.SEAL, Fact.LOST): Move.ELSEWHERE,
}
"""The legal moves; any other pair is a bug."""


class IllegalMove(Exception):
    """A fact that cannot be found in the plan's step: a bug. The message has the whole plan."""
