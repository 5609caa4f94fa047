"""What may happen to a plan: the facts found about a step, the legal moves, and the decisions they end in. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from services.state_syncer.plan import Commit, Fail
from services.state_syncer.progress import Plan, Step


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


class Move(StrEnum):
    """What is done about it."""

    STAY = "stay"
    REPLAN = "replan"
    ABORT = "abort"
    REDISTRIBUTE = "redistribute"
    ELSEWHERE = "elsewhere"
    SEAL = "seal"
    STUMBLE = "stumble"
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
    (Step.SEAL, Fact.UNANSWERED): Move.STAY,
    (Step.SEAL, Fact.DONE): Move.COMMIT,
    (Step.SEAL, Fact.FAILED): Move.STUMBLE,
    (Step.SEAL, Fact.LOST): Move.ELSEWHERE,
}
"""The legal moves; any other pair is a bug."""


# ---- decisions about a plan


@dataclass(frozen=True, slots=True)
class Hold:
    """Record the plan and commit the stop. `commit` is what runs, with no task served."""

    plan: Plan
    commit: Commit


@dataclass(frozen=True, slots=True)
class Record:
    """Record the plan as it is now; then ask its container."""

    plan: Plan


@dataclass(frozen=True, slots=True)
class Look:
    """Nothing to record: look, or ask, again. `why` nobody can be asked now."""

    plan: Plan
    why: str = ""


@dataclass(frozen=True, slots=True)
class Finish:
    """Commit the new generation and end the plan. `seconds`: by step, and `total`."""

    plan: Plan
    commit: Commit
    seconds: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Resume:
    """End the plan and let the old generation run, as `commit` says. `failure`: why, unless the plan was taken back."""

    plan: Plan
    commit: Commit
    failure: Fail | None = None


@dataclass(frozen=True, slots=True)
class Stumble:
    """A step that cannot be taken back failed: it is tried again later."""

    plan: Plan
    failure: Fail


PlanDecision = Hold | Record | Look | Finish | Resume | Stumble


class IllegalMove(Exception):
    """A fact that cannot be found in the plan's step: a bug, told with the plan's story."""
