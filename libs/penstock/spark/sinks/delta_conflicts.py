"""Changes of a Delta table that collide with those of other tasks are tried again, a limited number of times.

Delta lets the first of two colliding transactions commit. The second one fails, having changed nothing, so somebody
always gets on. Within a host, changes of one table wait for each other instead: a failed merge is wasted work.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from delta.exceptions import (
    ConcurrentAppendException,
    ConcurrentDeleteDeleteException,
    ConcurrentDeleteReadException,
    ConcurrentTransactionException,
    ConcurrentWriteException,
    DeltaConcurrentModificationException,
    MetadataChangedException,
    ProtocolChangedException,
)
from tenacity import RetryCallState, Retrying, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from penstock.control.errors import Unavailable
from penstock.control.logs import logger

# Four tasks merged without a pause and without turns: the least lucky one of their 24 merges took 11 attempts.
ATTEMPTS = 20
_FIRST_WAIT_SECONDS = 0.2
_LONGEST_WAIT_SECONDS = 5.0
# Delta's own do not derive from the first one.
_CONFLICTS = (
    DeltaConcurrentModificationException,
    ConcurrentAppendException,
    ConcurrentDeleteDeleteException,
    ConcurrentDeleteReadException,
    ConcurrentTransactionException,
    ConcurrentWriteException,
    MetadataChangedException,
    ProtocolChangedException,
)

log = logger(__name__)


class Stop:
    """Lets a stop of the task end what it waits for here."""

    def __init__(self) -> None:
        self._requested = threading.Event()

    def request(self) -> None:
        """Ends the waits of the task, now and later."""
        self._requested.set()
        with _changed:
            _changed.notify_all()

    def sleep(self, seconds: float) -> None:
        """Waits. Raises Unavailable when a stop is requested."""
        if self._requested.wait(seconds):
            raise Unavailable("the task was stopped while it waited for other writers of its Delta table")

    def wait_for(self, condition: Callable[[], bool]) -> None:
        """Waits for a condition under `_changed`, which the caller holds. Raises Unavailable as `sleep`."""
        _changed.wait_for(lambda: self._requested.is_set() or condition())
        self.sleep(0)


def retry_conflicts(path: str, change: Callable[[], object], stop: Stop | None = None) -> None:
    """Calls `change` until it does not collide, in turn with other changes of the table by this host.

    Raises Unavailable when it collides `ATTEMPTS` times, or when the task is stopped; and what `change` raises.
    """
    stop = stop or Stop()
    attempts = Retrying(
        retry=retry_if_exception_type(_CONFLICTS),
        stop=stop_after_attempt(ATTEMPTS),
        wait=wait_random_exponential(multiplier=_FIRST_WAIT_SECONDS, max=_LONGEST_WAIT_SECONDS),
        sleep=stop.sleep,
        before_sleep=lambda state: _log_conflict(path, state),
        reraise=True,
    )
    try:
        for attempt in attempts:
            with attempt, _turn(path, stop):
                change()
    except _CONFLICTS as error:
        raise Unavailable(
            f"the Delta table {path} was changed by others in each of {ATTEMPTS} attempts to change it: {error}"
        ) from error


def _log_conflict(path: str, state: RetryCallState) -> None:
    error = state.outcome.exception() if state.outcome is not None else None
    log.info("delta table changed by others", path=path, attempt=state.attempt_number, error=type(error).__name__)


@contextmanager
def _turn(path: str, stop: Stop) -> Iterator[None]:
    """The table for this thread alone, among those of this process."""
    with _changed:
        stop.wait_for(lambda: path not in _busy)
        _busy.add(path)
    try:
        yield
    finally:
        with _changed:
            _busy.remove(path)
            _changed.notify_all()


_changed = threading.Condition()
_busy: set[str] = set()
