"""Containers that do host tasks as the test says, as the parts of a State Syncer see them."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from penstock.config.declare import Model
from penstock.tasks.redistribution import CopyReport, RedistributionReport
from services.state_syncer.decide.progress import Step
from services.state_syncer.host_tasks.dispatcher import WantedHostTasks
from services.state_syncer.host_tasks.outcomes import Attempt, AttemptKey, Done, Failed, Lost, Outcome, Unanswered

Script = Callable[[AttemptKey], Outcome]


def everything_works(key: AttemptKey) -> Outcome:
    reports = {Step.REDISTRIBUTE: RedistributionReport(), Step.COPY: CopyReport()}
    return Done(reports.get(key.kind))


def fails_at(step: Step) -> Script:
    """Every attempt at a step fails."""
    return lambda key: Failed("disk full") if key.kind == step else everything_works(key)


def waits_at(step: Step) -> Script:
    """No attempt at a step comes to an end."""
    return lambda key: Unanswered() if key.kind == step else everything_works(key)


def reports_at(step: Step, report: Model) -> Script:
    """Every attempt at a step is done, with this report."""
    return lambda key: Done(report) if key.kind == step else everything_works(key)


def silent(container: str) -> Script:
    """A container that never answers; the others work."""
    return lambda key: Lost("no answer") if key.container == container else everything_works(key)


class Containers:
    """Asked by any number of syncers, one after another: what they know is theirs and outlives those.

    `asked` has every attempt once, in order, that was asked while `works` answered for it; `copies` those to copy
    state.
    """

    def __init__(self, works: Script = everything_works) -> None:
        self.works = works
        self.asked: list[Attempt] = []
        self.copies: list[Attempt] = []

    def generations(self) -> list[int | None]:
        """The generations that were to be written, in order."""
        return [ask.key.number for ask in self.asked if ask.key.kind == Step.REDISTRIBUTE]


class NobodyToAsk(WantedHostTasks):
    """The host tasks of a cell without containers: nothing is ever answered."""

    def __init__(self) -> None:
        pass

    def outcome(self, key: AttemptKey) -> Outcome:
        return Unanswered()

    def want(self, attempts: Iterable[Attempt], leader_epoch: int) -> None:
        pass


class MemoryHostTasks(WantedHostTasks):
    """The host tasks of one part of a syncer: they are forgotten when its process ends."""

    def __init__(self, containers: Containers) -> None:
        self._containers = containers
        self._outcomes: dict[AttemptKey, Outcome] = {}

    def outcome(self, key: AttemptKey) -> Outcome:
        return self._outcomes.get(key, Unanswered())

    def want(self, attempts: Iterable[Attempt], leader_epoch: int) -> None:
        outcomes, self._outcomes = self._outcomes, {}
        for attempt in attempts:
            if isinstance(attempt.request, Failed):
                self._outcomes[attempt.key] = attempt.request
                continue
            known = self._containers.copies if attempt.key.kind == Step.COPY else self._containers.asked
            if all(attempt.key != before.key for before in known):
                known.append(attempt)
            self._outcomes[attempt.key] = outcomes.get(attempt.key) or self._containers.works(attempt.key)
