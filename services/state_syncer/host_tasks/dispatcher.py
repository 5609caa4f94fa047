"""Asks containers to carry out host tasks, on threads of its own: a round never waits for an answer."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

from pydantic import ValidationError

from penstock.control.errors import PenstockError, RetryableError, UserError
from penstock.control.logs import logger
from penstock.tasks.host_request import HostRequest
from penstock.tasks.host_task import POLICIES, HostTask
from penstock.wire.host_task_client import HostTaskClient
from penstock.wire.host_tasks import BROKEN, LEADER_EPOCH, LOST, HostTaskAnswer, HostTaskState
from services.state_syncer.host_tasks.outcomes import Attempt, AttemptKey, Done, Failed, Lost, Outcome, Unanswered

log = logger(__name__)


@dataclass(slots=True, eq=False)
class _Known:
    """One attempt under one leader epoch. `task`: what was asked of the container at `url`; None when nothing was.

    `begun_at`: when the container was first to be asked. `answered`: the container has said that the task goes on.
    """

    outcome: Outcome = field(default_factory=Unanswered)
    asking: bool = False
    answered: bool = False
    begun_at: float = 0.0
    silent_since: float | None = None
    url: str = ""
    task: HostTask | None = None

    @property
    def is_due(self) -> bool:
        return isinstance(self.outcome, Unanswered) and not self.asking

    @property
    def may_be_under_way(self) -> bool:
        return self.task is not None and isinstance(self.outcome, Unanswered | Lost)


class Dispatcher:
    """Asks over HTTP, `workers` calls at a time. A container silent for `lost_after_seconds` is lost.

    The first call of an attempt goes before all further ones and does not wait for the end of the task. The further
    ones take turns. `on_news` is called from a worker when an attempt has ended. Outcomes are kept in memory only: a
    new leader asks the recorded container again.
    """

    def __init__(
        self,
        client: HostTaskClient,
        monotonic: Callable[[], float],
        *,
        workers: int,
        lost_after_seconds: float,
        wait_seconds: float = 1.0,
    ) -> None:
        self.client = client
        self.monotonic = monotonic
        self.lost_after_seconds = lost_after_seconds
        self.wait_seconds = wait_seconds
        self.pool = ThreadPoolExecutor(max_workers=workers, thread_name_prefix="host-tasks")
        self.on_news: Callable[[], None] = lambda: None
        self._first_calls: deque[Callable[[], None]] = deque()
        self._calls: deque[Callable[[], None]] = deque()

    def submit(self, call: Callable[[], None], *, first: bool = False) -> None:
        """A worker makes the call. Those that are `first` go before all others."""
        (self._first_calls if first else self._calls).append(call)
        with suppress(RuntimeError):  # this process ends, and a new leader asks
            self.pool.submit(self._make_next_call)

    def close(self) -> None:
        """Waits for the calls under way; those still queued are not made."""
        self.pool.shutdown(wait=True, cancel_futures=True)

    def _make_next_call(self) -> None:
        try:
            call = self._first_calls.popleft()
        except IndexError:
            call = self._calls.popleft()
        call()


class WantedHostTasks:
    """The host tasks of one part of the State Syncer, which knows nothing of the other parts.

    A round passes the attempts that it wants; a later round reads their outcomes. Nothing that was found under another
    leader epoch counts.
    """

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher
        self._lock = threading.Lock()
        self._known: dict[AttemptKey, _Known] = {}
        self._leader_epoch: int | None = None

    def outcome(self, key: AttemptKey) -> Outcome:
        """What is known of an attempt."""
        with self._lock:
            known = self._known.get(key)
            return Unanswered() if known is None else known.outcome

    def want(self, attempts: Iterable[Attempt], leader_epoch: int) -> None:
        """Replaces the attempts of this part that are wanted now. The others are forgotten and cancelled at their
        containers. Returns at once."""
        wanted: dict[AttemptKey, Attempt] = {attempt.key: attempt for attempt in attempts}
        with self._lock:
            unwanted = [each for each in self._known.items() if each[0] not in wanted and each[1].may_be_under_way]
            before = self._known if leader_epoch == self._leader_epoch else {}
            self._leader_epoch = leader_epoch
            self._known = {key: before.get(key, _Known()) for key in wanted}
            self._known |= {
                key: _Known(attempt.request) for key, attempt in wanted.items() if isinstance(attempt.request, Failed)
            }
            due = [(key, known) for key, known in self._known.items() if wanted[key].url and known.is_due]
            for key, known in due:
                self._begin(known, wanted[key].url, HostTask(leader_epoch=leader_epoch, request=wanted[key].request))
            kept = {(known.url, known.task.key) for known in self._known.values() if known.task is not None}
        for key, known in unwanted:
            if known.task is not None and (known.url, known.task.key) not in kept:
                self._dispatcher.submit(partial(self._cancel, key.container, known.url, known.task.key, leader_epoch))
        for key, known in due:
            self._dispatcher.submit(partial(self._ask, key, known), first=known.silent_since is None)

    def _begin(self, known: _Known, url: str, task: HostTask) -> None:
        if known.task is None:
            known.begun_at = self._dispatcher.monotonic()
        known.asking, known.url, known.task = True, url, task

    def _ask(self, key: AttemptKey, known: _Known) -> None:
        with self._lock:
            task = known.task if self._known.get(key) is known else None
        if task is None:
            return
        asked_at = self._dispatcher.monotonic()
        wait_seconds = self._dispatcher.wait_seconds if known.answered else 0.0
        try:
            answer = self._dispatcher.client.put(key.container, known.url, task, wait_seconds=wait_seconds)
            outcome = _outcome(task.request, answer)
        except UserError as error:
            if error.field == LEADER_EPOCH:
                log.warning("container heard of a newer leader", container=key.container, job=key.job)
                known.asking = False
                return
            outcome = Failed(error.detail)
        except RetryableError as error:
            log.warning("container does not answer", container=key.container, job=key.job, error=error.detail)
            self._was_silent(known, asked_at, error.detail)
            return
        except Exception as error:
            log.exception("asking a container broke", container=key.container, job=key.job)
            outcome = Failed(repr(error))
        if isinstance(outcome, Unanswered):
            self._ask_again(key, known, outcome)
        else:
            self._note(known, outcome)

    def _ask_again(self, key: AttemptKey, known: _Known, outcome: Unanswered) -> None:
        """The task goes on: its end is waited for further, in turn with the other attempts, until its time is up."""
        with self._lock:
            known.silent_since, known.answered, known.outcome = None, True, outcome
        limit = POLICIES[key.kind].longest_seconds
        if self._dispatcher.monotonic() - known.begun_at >= limit:
            self._note(known, Lost(f"not done after {limit:.0f} s"))
        else:
            self._dispatcher.submit(partial(self._ask, key, known))

    def _was_silent(self, known: _Known, asked_at: float, error: str) -> None:
        with self._lock:
            known.asking = False
            since = known.silent_since = asked_at if known.silent_since is None else known.silent_since
        silent_seconds = self._dispatcher.monotonic() - since
        if silent_seconds >= self._dispatcher.lost_after_seconds:
            self._note(known, Lost(f"no answer for {silent_seconds:.0f} s: {error}"))

    def _note(self, known: _Known, outcome: Outcome) -> None:
        with self._lock:
            known.outcome, known.asking = outcome, False
        self._dispatcher.on_news()

    def _cancel(self, container: str | None, url: str, key: str, leader_epoch: int) -> None:
        """Tried once: a container that does not hear it finds out by the specs, and a host by the fence."""
        try:
            self._dispatcher.client.cancel(container, url, key, leader_epoch)
            log.info("host task cancelled", key=key, url=url)
        except PenstockError as error:
            log.warning("host task not cancelled", key=key, url=url, error=error.detail)


def _outcome(request: HostRequest, answer: HostTaskAnswer) -> Outcome:
    match answer.state:
        case HostTaskState.RUNNING:
            return Unanswered(answer.progress or "")
        case HostTaskState.DONE:
            return _done(request, answer)
        case HostTaskState.FAILED if answer.error_kind == LOST:
            return Lost(answer.error or "no reason given")
        case HostTaskState.FAILED:
            return Failed(answer.error or "no reason given", is_final=answer.error_kind == BROKEN)


def _done(request: HostRequest, answer: HostTaskAnswer) -> Done | Failed:
    if request.Report is None:
        return Done()
    try:
        return Done(request.Report.model_validate(answer.report))
    except ValidationError as error:
        return Failed(f"the container's report cannot be read: {error}")
