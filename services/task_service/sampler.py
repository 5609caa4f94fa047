"""The thread that takes the samples, rolls hours of jobs from them, and lets go of what is old.

It reads no specs, so it cannot hold them up. In every Task Service; the store lets one of them take the samples of a
minute, and one of them roll.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from penstock.control.clock import Clock
from penstock.control.errors import PenstockError
from penstock.control.logs import logger
from penstock.control.period import Period
from services.task_service.store.hours import HourStore
from services.task_service.store.samples import SampleStore

log = logger(__name__)
LOOK_SECONDS = 2.0
FROM_SECOND = 40
"""Late in a minute, so that the samples are of that minute, and early enough that they are there when it is over."""
TEND_SECONDS = 3600.0
_PAUSE_SECONDS = 0.2


class Sampler:
    """`keep_days`: the age at which hours of jobs and loads go. `keep_task_days`: that of samples of tasks."""

    def __init__(
        self, store: SampleStore, hours: HourStore, clock: Clock, *, keep_days: int, keep_task_days: int
    ) -> None:
        self._store = store
        self._hours = hours
        self._clock = clock
        self._keep_days = keep_days
        self._keep_task_days = keep_task_days
        self._tending = Period(TEND_SECONDS)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sampler", daemon=True)

    def start(self) -> None:
        """Looks at once, then every two seconds; sooner while hours are being rolled."""
        self._thread.start()

    def stop(self) -> None:
        """Ends after the present step."""
        self._stopping.set()
        self._thread.join(timeout=10)

    def step(self) -> bool:
        """Does what is due, of the hours one page; whether it rolled one. What failed is logged, and tried again at the
        next step or in an hour."""
        if self._tending.is_due(self._clock.monotonic()):
            self._tending.done()
            for task in (self._store.add_days, self._store.keep_former, self._drop, self._purge):
                self._attempt(task)
        if self._clock.now().second >= FROM_SECOND:
            self._attempt(self._take)
        return self._attempt(self._roll) is True

    def _run(self) -> None:
        while not self._stopping.is_set():
            has_rolled = self.step()
            self._stopping.wait(_PAUSE_SECONDS if has_rolled else LOOK_SECONDS)

    def _attempt(self, task: Callable[[], object]) -> object:
        try:
            return task()
        except PenstockError as error:
            log.warning("samples not tended", error=error.detail)
        except Exception:
            log.exception("tending samples failed")
        return None

    def _take(self) -> None:
        count = self._store.take()
        if count is not None:
            log.info("samples taken", samples=count)

    def _roll(self) -> bool:
        rolled = self._hours.roll()
        if rolled is not None and rolled.is_whole:
            log.info("hour rolled", hour=rolled.hour.isoformat())
        return rolled is not None

    def _drop(self) -> None:
        self._drop_all(lambda: self._store.drop_oldest(self._keep_task_days, unrolled_days=self._keep_days))
        self._drop_all(lambda: self._hours.drop_oldest(self._keep_days))

    def _drop_all(self, drop_oldest: Callable[[], str | None]) -> None:
        while not self._stopping.is_set() and (part := drop_oldest()) is not None:
            log.info("old samples dropped", part=part)

    def _purge(self) -> None:
        while self._store.purge(self._keep_days) and not self._stopping.wait(_PAUSE_SECONDS):
            pass
