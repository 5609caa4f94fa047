"""Recent crashes and answer times of each container, collected from check to check. Pure.

The statistics start empty with each leader, so earlier events count against no container.
"""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from services.shard_manager.health.outliers import Place, Tasks

LATEST, ENOUGH = 20, 5
"""How many times are kept for each container and measure, and how many a median needs."""
TWICE = 2


class CrashedTask(NamedTuple):
    """A task as its container last reported it; `crashes`: crashes in a row, one or more."""

    job: str
    number: int
    container: str
    crashes: int


class FailureStats:
    """Events of the last `window_seconds`. Times are monotonic seconds."""

    def __init__(self, window_seconds: float) -> None:
        self._window_seconds = window_seconds
        self._began_at: float | None = None
        self._in_a_row: dict[tuple[str, int, str], tuple[int, float]] = {}
        self._crashes: deque[tuple[float, tuple[str, int, str], int]] = deque()
        self._times: dict[str, dict[str, deque[tuple[float, float]]]] = defaultdict(dict)

    def add_crashes(self, crashed: Iterable[CrashedTask], now: float) -> None:
        """Adds the tasks that have not been healthy since a crash. Crashes before the first call do not count.

        A task that is missing for a while, as when its container is declared lost, comes back with its old crashes.
        """
        is_first = self._began_at is None
        self._began_at = now if self._began_at is None else self._began_at
        in_a_row = {(task.job, task.number, task.container): task.crashes for task in crashed}
        for task, crashes in in_a_row.items():
            known, _ = self._in_a_row.get(task, (0, now))
            new = crashes - known if crashes >= known else crashes
            if new > 0 and not is_first:
                self._crashes.append((now, task, new))
            self._in_a_row[task] = (crashes, now)
        oldest = now - self._window_seconds
        self._in_a_row = {task: seen for task, seen in self._in_a_row.items() if seen[1] > oldest}

    def add_time(self, what: str, container: str, seconds: float, now: float) -> None:
        """Adds the time that a container took for `what`."""
        self._times[what].setdefault(container, deque(maxlen=LATEST)).append((now, seconds))

    def forget(self, container: str) -> None:
        """Forgets a container's past, since an operator opened it again."""
        self._crashes = deque(each for each in self._crashes if each[1][2] != container)
        for by_container in self._times.values():
            by_container.pop(container, None)

    def most_failing_tasks(self, now: float) -> int:
        """The number of tasks that crashed twice or more in the window, on the container with the most of them."""
        failing = Counter(container for (_, _, container), count in self._recent(now).items() if count >= TWICE)
        return max(failing.values(), default=0)

    def tasks(self, counts: Mapping[Place, int], now: float) -> dict[Place, Tasks]:
        """The tasks by job and container. `counts`: the present number of tasks, for the hours that they ran."""
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
        """The median of the latest times within the window, by container; containers with few times are left out."""
        since = now - self._window_seconds
        recent = {name: [each for at, each in times if at > since] for name, times in self._times[what].items()}
        return {name: statistics.median(times) for name, times in recent.items() if len(times) >= ENOUGH}
