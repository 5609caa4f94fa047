"""What each container's tasks and answers were like lately, put together from one look after another. Pure.

It begins empty with each leader, so nobody is judged by what was before.
"""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from services.shard_manager.gray import Place, Tasks

LATEST, ENOUGH = 20, 5
"""How many times are kept of each container, for each thing that is measured; from how many on they tell something."""
TWICE = 2


class CrashedTask(NamedTuple):
    """A task as its container last reported it; `crashes` is that of crashes in a row, one or more."""

    job: str
    number: int
    container: str
    crashes: int


class Ledger:
    """The last `window_seconds`. Times are seconds of one monotonic clock."""

    def __init__(self, window_seconds: float) -> None:
        self._window_seconds = window_seconds
        self._began_at: float | None = None
        self._in_a_row: dict[tuple[str, int, str], int] = {}
        self._crashes: deque[tuple[float, tuple[str, int, str], int]] = deque()
        self._times: dict[str, dict[str, deque[tuple[float, float]]]] = defaultdict(dict)

    def take(self, crashed: Iterable[CrashedTask], now: float) -> None:
        """A look at all tasks that have not been healthy since a crash. What had crashed before the first look is of no
        interest."""
        is_first = self._began_at is None
        self._began_at = now if self._began_at is None else self._began_at
        in_a_row = {(task.job, task.number, task.container): task.crashes for task in crashed}
        for task, crashes in in_a_row.items():
            known = self._in_a_row.get(task, 0)
            new = crashes - known if crashes >= known else crashes
            if new > 0 and not is_first:
                self._crashes.append((now, task, new))
        self._in_a_row = in_a_row

    def measured(self, what: str, container: str, seconds: float, now: float) -> None:
        """It took a container so long to do something."""
        self._times[what].setdefault(container, deque(maxlen=LATEST)).append((now, seconds))

    def forget(self, container: str) -> None:
        """From now on its past counts no more: it is given another chance."""
        self._crashes = deque(each for each in self._crashes if each[1][2] != container)
        for by_container in self._times.values():
            by_container.pop(container, None)

    def most_failing(self, now: float) -> int:
        """How many tasks crashed twice or more in the window, on the container with the most of them."""
        failing = Counter(container for (_, _, container), count in self._recent(now).items() if count >= TWICE)
        return max(failing.values(), default=0)

    def tasks(self, counts: Mapping[Place, int], now: float) -> dict[Place, Tasks]:
        """By job and container; `counts`: those there now, of which the hours are, since the window or ledger began."""
        crashes = self._recent(now)
        began_at = now if self._began_at is None else self._began_at
        hours = min(self._window_seconds, now - began_at) / 3600
        found = {place: Tasks(count, 0, 0, count * hours) for place, count in counts.items()}
        for (job, _, container), count in crashes.items():
            before = found.get((job, container), Tasks(0, 0, 0, 0.0))
            is_failing = before.failing + (count >= TWICE)
            found[job, container] = before._replace(
                seen=max(before.seen, is_failing), failing=is_failing, crashes=before.crashes + count
            )
        return found

    def _recent(self, now: float) -> Counter[tuple[str, int, str]]:
        """The crashes of each task within the window."""
        while self._crashes and self._crashes[0][0] <= now - self._window_seconds:
            self._crashes.popleft()
        crashes: Counter[tuple[str, int, str]] = Counter()
        for _, task, count in self._crashes:
            crashes[task] += count
        return crashes

    def typical(self, what: str, now: float) -> dict[str, float]:
        """The median of the latest times within the window, by container; unknown for those with few of them."""
        since = now - self._window_seconds
        recent = {name: [each for at, each in times if at > since] for name, times in self._times[what].items()}
        return {name: statistics.median(times) for name, times in recent.items() if len(times) >= ENOUGH}
