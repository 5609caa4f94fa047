"""What is known of an attempt at a host task. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from penstock.config.declare import Model
from penstock.tasks.host_task import Request


@dataclass(frozen=True, slots=True)
class Unanswered:
    """Nothing was asked yet, there is no answer yet, or the work goes on. `progress`: what its host says of it."""

    progress: str = ""


@dataclass(frozen=True, slots=True)
class Done:
    """The container did it. `report`: the model that the kind's request names, None when it names none."""

    report: Model | None = None


@dataclass(frozen=True, slots=True)
class Failed:
    """The container tried and could not, or refused. `is_final`: only another request can help."""

    error: str
    is_final: bool = False


@dataclass(frozen=True, slots=True)
class Lost:
    """The container has not answered for too long, or has not ended the task in time. It may still work, but its result
    is not used."""

    why: str


Outcome = Unanswered | Done | Failed | Lost
UNANSWERED = Unanswered()


class AttemptKey(NamedTuple):
    """One attempt at a host task. The next attempt after a failure or a loss has another key.

    `kind` and `number` are those of the request. `failures`, `losses`: how often the task failed, and how many
    containers were lost at it, before this attempt.
    """

    job: str
    kind: str
    number: int | None
    container: str | None
    failures: int = 0
    losses: int = 0


@dataclass(frozen=True, slots=True)
class Attempt:
    """The container at `url` shall carry the request out, or say how far it is.

    An empty `url`: the container cannot be asked now; the attempt stays wanted. `request` is `Failed` when it could not
    be built; nobody is asked then.
    """

    key: AttemptKey
    url: str
    request: Request | Failed
