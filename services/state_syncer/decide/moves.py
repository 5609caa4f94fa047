"""What follows from what is found about a step of a rescale: the table. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from services.state_syncer.decide.facts import Fact
from services.state_syncer.decide.progress import Step


class Move(StrEnum):
    """What is done about it."""

    STAY = "stay"
    REPLAN = "replan"
    ABORT = "abort"
    HOLD = "give the tasks no more rows"
    HOLD_UNCOPIED = "the same, without a copy of the state"
    NOTE = "note since when tasks are lost, or that none is"
    TAKE_BACK = "let the tasks take rows again, and begin anew once all of them run"
    LEVEL = "let those that are behind read on to the greatest watermark"
    STOP = "stop"
    ASK = "ask another container"
    DROP_COPY = "copy the state again later"
    SEAL = "seal"
    RETRY = "retry"
    COMMIT = "commit"


MOVES: Mapping[tuple[Step, Fact], Move] = {
    (Step.COPY, Fact.CHANGED): Move.REPLAN,
    (Step.COPY, Fact.LATE): Move.HOLD_UNCOPIED,
    (Step.COPY, Fact.NEEDLESS): Move.HOLD_UNCOPIED,
    (Step.COPY, Fact.UNWANTED): Move.HOLD_UNCOPIED,
    (Step.COPY, Fact.AWAITED): Move.STAY,
    (Step.COPY, Fact.OUT_OF_DATE): Move.DROP_COPY,
    (Step.COPY, Fact.STRANDED): Move.ABORT,
    (Step.COPY, Fact.UNASKED): Move.ASK,
    (Step.COPY, Fact.UNANSWERED): Move.STAY,
    (Step.COPY, Fact.DONE): Move.HOLD,
    (Step.COPY, Fact.FAILED): Move.HOLD_UNCOPIED,
    (Step.COPY, Fact.UNMOVABLE): Move.ABORT,
    (Step.COPY, Fact.UNSEALABLE): Move.ABORT,
    (Step.COPY, Fact.GIVEN_UP): Move.HOLD_UNCOPIED,
    (Step.QUIESCE, Fact.CHANGED): Move.REPLAN,
    (Step.QUIESCE, Fact.LATE): Move.ABORT,
    (Step.QUIESCE, Fact.BUSY): Move.STAY,
    (Step.QUIESCE, Fact.MISSED): Move.NOTE,
    (Step.QUIESCE, Fact.AWAITED): Move.STAY,
    (Step.QUIESCE, Fact.RETURNED): Move.NOTE,
    (Step.QUIESCE, Fact.AWAY): Move.TAKE_BACK,
    (Step.QUIESCE, Fact.AWAY_AGAIN): Move.ABORT,
    (Step.QUIESCE, Fact.QUIET): Move.STOP,
    (Step.QUIESCE, Fact.UNEVEN): Move.LEVEL,
    (Step.QUIESCE, Fact.TOO_FAR): Move.ABORT,
    (Step.LEVEL, Fact.CHANGED): Move.REPLAN,
    (Step.LEVEL, Fact.LATE): Move.ABORT,
    (Step.LEVEL, Fact.BUSY): Move.STAY,
    (Step.LEVEL, Fact.MISSED): Move.NOTE,
    (Step.LEVEL, Fact.AWAITED): Move.STAY,
    (Step.LEVEL, Fact.RETURNED): Move.NOTE,
    (Step.LEVEL, Fact.AWAY): Move.TAKE_BACK,
    (Step.LEVEL, Fact.AWAY_AGAIN): Move.ABORT,
    (Step.LEVEL, Fact.QUIET): Move.STOP,
    (Step.LEVEL, Fact.UNEVEN): Move.LEVEL,
    (Step.LEVEL, Fact.TOO_FAR): Move.ABORT,
    (Step.AWAIT_STOPPED, Fact.CHANGED): Move.REPLAN,
    (Step.AWAIT_STOPPED, Fact.LATE): Move.ABORT,
    (Step.AWAIT_STOPPED, Fact.UNKNOWN): Move.ABORT,
    (Step.AWAIT_STOPPED, Fact.NOT_GONE): Move.STAY,
    (Step.AWAIT_STOPPED, Fact.GONE): Move.ASK,
    (Step.REDISTRIBUTE, Fact.CHANGED): Move.REPLAN,
    (Step.REDISTRIBUTE, Fact.LATE): Move.ABORT,
    (Step.REDISTRIBUTE, Fact.UNANSWERED): Move.STAY,
    (Step.REDISTRIBUTE, Fact.DONE): Move.SEAL,
    (Step.REDISTRIBUTE, Fact.FAILED): Move.ABORT,
    (Step.REDISTRIBUTE, Fact.LOST): Move.ASK,
    (Step.REDISTRIBUTE, Fact.GIVEN_UP): Move.ABORT,
    (Step.SEAL, Fact.UNANSWERED): Move.STAY,
    (Step.SEAL, Fact.DONE): Move.COMMIT,
    (Step.SEAL, Fact.FAILED): Move.RETRY,
    (Step.SEAL, Fact.LOST): Move.ASK,
}
"""The legal moves; any other pair is a bug."""
