"""Asks containers to carry out steps, beside the rounds: a round never waits for an answer."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Protocol

from penstock.control.errors import RetryableError, UserError
from penstock.control.logs import logger
from penstock.tasks.work import HostWork
from penstock.wire.redistributions import LOST, RedistributionAnswer, WorkState
from services.state_syncer.asks import Ask, AskKey
from services.state_syncer.progress import Done, Failed, Lost, Outcome, Unanswered

log = logger(__name__)


class Asker(Protocol):
    """Asks containers: a round asks, goes on, and finds the outcome in a later round."""

    def outcome(self, key: AskKey) -> Outcome:
        """What is known of an attempt."""
        ...

    def ask(self, asks: Iterable[Ask]) -> None:
        """All attempts that go on now; what is known of others is forgotten. Returns at once."""
        ...


class Executor(Asker, Protocol):
    """What the rounds of jobs need."""

    def reject(self, key: AskKey, error: str) -> None:
        """An attempt that cannot even be asked for."""
        ...


class Client(Protocol):
    """`penstock.wire.redistribution_client.RedistributionClient`."""

    def ask(self, url: str, request: HostWork, *, wait_seconds: float) -> RedistributionAnswer:
        """Raises Unavailable and UserError."""
        ...


@dataclass(slots=True)
class _Attempt:
    outcome: Outcome = field(default_factory=Unanswered)
    asking: bool = False
    silent_since: float | None = None


class ContainerExecutor:
    """Asks over HTTP, `workers` at a time. A container that has not answered for `lost_after_seconds` is lost.

    `on_news` is called from a worker when an attempt has ended. Outcomes are kept in memory only: a new leader asks
    the recorded container again.
    """

    def __init__(
        self,
        client: Client,
        monotonic: Callable[[], float],
        *,
        workers: int,
        lost_after_seconds: float,
        wait_seconds: float = 1.0,
    ) -> None:
        self._client = client
        self._monotonic = monotonic
        self._lost_after_seconds = lost_after_seconds
        self._wait_seconds = wait_seconds
        self._lock = threading.Lock()
        self._attempts: dict[AskKey, _Attempt] = {}
        self._pool = ThreadPoolExecutor(max_workers=workers, thread_name_prefix="plans")
        self.on_news: Callable[[], None] = _nobody_waits

    def outcome(self, key: AskKey) -> Outcome:
        """See the port."""
        with self._lock:
            attempt = self._attempts.get(key)
            return Unanswered() if attempt is None else attempt.outcome

    def ask(self, asks: Iterable[Ask]) -> None:
        """See the port."""
        wanted: dict[AskKey, Ask] = {ask.key: ask for ask in asks}
        with self._lock:
            self._attempts = {key: self._attempts.get(key) or _Attempt() for key in wanted}
            due = [key for key, attempt in self._attempts.items() if _is_due(attempt)]
            for key in due:
                self._attempts[key].asking = True
        for key in due:
            self._pool.submit(self._ask, wanted[key])

    def reject(self, key: AskKey, error: str) -> None:
        """See the port."""
        with self._lock:
            self._attempts[key] = _Attempt(Failed(error))

    def close(self) -> None:
        """Waits for the calls under way; those still queued are not made."""
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _ask(self, ask: Ask) -> None:
        asked_at = self._monotonic()
        try:
            outcome = _outcome(self._client.ask(ask.url, ask.request, wait_seconds=self._wait_seconds))
        except UserError as error:
            outcome = Failed(error.detail)
        except RetryableError as error:
            log.warning("container does not answer", container=ask.key.container, job=ask.key.job, error=error.detail)
            self._was_silent(ask.key, asked_at, error.detail)
            return
        except Exception as error:
            log.exception("asking a container broke", container=ask.key.container, job=ask.key.job)
            outcome = Failed(repr(error))
        if isinstance(outcome, Unanswered):
            self._ask_on(ask)
        else:
            self._note(ask.key, outcome)

    def _ask_on(self, ask: Ask) -> None:
        """The work goes on: its end is waited for further, in turn with the other attempts."""
        with self._lock:
            if ask.key not in self._attempts:
                return
            self._attempts[ask.key] = _Attempt(asking=True)
        with suppress(RuntimeError):  # this process ends, and a new leader asks
            self._pool.submit(self._ask, ask)

    def _was_silent(self, key: AskKey, asked_at: float, error: str) -> None:
        with self._lock:
            attempt = self._attempts.get(key)
            if attempt is None:
                return
            attempt.asking = False
            since = attempt.silent_since = asked_at if attempt.silent_since is None else attempt.silent_since
        silent_seconds = self._monotonic() - since
        if silent_seconds >= self._lost_after_seconds:
            self._note(key, Lost(f"no answer for {silent_seconds:.0f} s: {error}"))

    def _note(self, key: AskKey, outcome: Outcome) -> None:
        with self._lock:
            if key in self._attempts:
                self._attempts[key] = _Attempt(outcome)
        self.on_news()


def _is_due(attempt: _Attempt) -> bool:
    return isinstance(attempt.outcome, Unanswered) and not attempt.asking


def _outcome(answer: RedistributionAnswer) -> Outcome:
    match answer.state:
        case WorkState.RUNNING:
            return Unanswered()
        case WorkState.DONE:
            return Done(answer.report, answer.savepoint)
        case WorkState.FAILED if answer.error_kind == LOST:
            return Lost(answer.error or "no reason given")
        case WorkState.FAILED:
            return Failed(answer.error or "no reason given")


def _nobody_waits() -> None:
    """Without a loop around it the caller looks when it likes."""


class NobodyToAsk:
    """The executor of a cell without containers: nothing is ever answered."""

    def outcome(self, key: AskKey) -> Outcome:
        """See the port."""
        return Unanswered()

    def ask(self, asks: Iterable[Ask]) -> None:
        """See the port."""

    def reject(self, key: AskKey, error: str) -> None:
        """See the port."""
