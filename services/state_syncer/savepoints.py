"""What to do about a savepoint that is to be taken or to go: one decision from its row and what is seen. Pure.

What is copied and who is asked are recorded before anybody is, so a new leader asks the same container the same thing.
A savepoint is of the generation that ran when it was bound; a rescale meanwhile leaves that generation where it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from penstock.tasks.savepoint import SavepointRemoval, SavepointReport, SavepointRequest
from services.state_syncer.asks import AskKey, layout
from services.state_syncer.progress import Done, Failed, Helper, Lost, Outcome

ATTEMPTS = 5
DELETING = "deleting"
TAKE_SAVEPOINT = "take_savepoint"
REMOVE_SAVEPOINT = "remove_savepoint"


class Row(Protocol):
    """What is used of a row of `savepoints`."""

    @property
    def number(self) -> int:
        """Its own."""
        ...

    @property
    def job(self) -> str:
        """Whose savepoint it is."""
        ...

    @property
    def name(self) -> str:
        """Unique in the job."""
        ...

    @property
    def state(self) -> str:
        """`asked` or `deleting`."""
        ...

    @property
    def generation(self) -> int | None:
        """What is copied."""
        ...

    @property
    def config(self) -> Mapping[str, Any] | None:
        """What ran then."""
        ...

    @property
    def container(self) -> str | None:
        """Who was asked."""
        ...

    @property
    def attempts(self) -> int:
        """How often somebody was."""
        ...


class Running(Protocol):
    """What is used of the running configuration."""

    @property
    def started(self) -> bool:
        """Whether there can be checkpoints."""
        ...


@dataclass(frozen=True, slots=True)
class Bind:
    """Record who is asked and, `first`, what is copied."""

    container: str
    first: bool


@dataclass(frozen=True, slots=True)
class Look:
    """Ask, or ask again how far it is."""

    container: str


@dataclass(frozen=True, slots=True)
class Ready:
    """It was taken."""

    report: SavepointReport


@dataclass(frozen=True, slots=True)
class Broken:
    """It cannot be taken."""

    why: str


@dataclass(frozen=True, slots=True)
class Again:
    """Somebody is to be asked anew, perhaps another."""

    why: str


@dataclass(frozen=True, slots=True)
class Gone:
    """It is removed."""


@dataclass(frozen=True, slots=True)
class Nobody:
    """No container can be asked now."""


Decision = Bind | Look | Ready | Broken | Again | Gone | Nobody


def key_of(row: Row) -> AskKey:
    """The attempt that a row is at. Losses count as failures."""
    step = REMOVE_SAVEPOINT if row.state == DELETING else TAKE_SAVEPOINT
    return AskKey(row.job, step, row.number, row.container, row.attempts, 0)


def decide(row: Row, running: Running | None, helpers: Sequence[Helper], outcome: Outcome) -> Decision:
    """The next step. `outcome` is that of `key_of(row)`."""
    if row.container is None:
        return _bind(row, running, helpers)
    match outcome:
        case Done(savepoint=report):
            return _done(row, report)
        case Failed(why):
            return _failed(row, why)
        case Lost(why):
            return Again(why)
    if row.container not in {helper.name for helper in helpers}:
        return Again(f"{row.container} is lost")
    return Look(row.container)


def request_of(row: Row, earlier: Sequence[str]) -> SavepointRequest | SavepointRemoval:
    """What the container is asked. Raises ValueError (pydantic's, too) when the configuration cannot be read."""
    if row.state == DELETING:
        return SavepointRemoval(job=row.job, name=row.name, number=row.number)
    if row.generation is None or row.config is None:
        raise ValueError(f"savepoint {row.number} of {row.job} is bound to no generation")
    return SavepointRequest(
        job=row.job,
        name=row.name,
        number=row.number,
        layout=layout(row.generation, row.config),
        earlier=tuple(earlier),
    )


def _bind(row: Row, running: Running | None, helpers: Sequence[Helper]) -> Decision:
    first = row.state != DELETING and row.generation is None
    if first and (running is None or not running.started):
        return Broken("the job does not run and has no checkpoint")
    chosen = next_helper(row.attempts, helpers)
    return Nobody() if chosen is None else Bind(chosen, first)


def next_helper(attempts: int, helpers: Sequence[Helper]) -> str | None:
    """Who is asked after so many attempts: the least busy, then the next. Each attempt begins with another one: a
    container that answers nobody may be live for all that the store knows."""
    ordered = sorted(helpers, key=lambda helper: (helper.load, helper.name))
    return ordered[attempts % len(ordered)].name if ordered else None


def _done(row: Row, report: SavepointReport | None) -> Decision:
    if row.state == DELETING:
        return Gone()
    return Again("the container told no report") if report is None else Ready(report)


def _failed(row: Row, why: str) -> Decision:
    """Files that cannot be deleted are tried again for ever: nothing else is to be done about them."""
    return Again(why) if row.state == DELETING or row.attempts < ATTEMPTS else Broken(why)
