"""When the tasks of a job commit, watched while they do: Spark keeps the last batches only."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

from penstock.control.repeat import repeating
from penstock.local.stack import LocalStack

_LOOK_S = 0.2


class Commits:
    """The commits of each task of a job's newest generation, by its index: seconds since 1970."""

    def __init__(self, stack: LocalStack, job: str) -> None:
        self._folder = stack.data_dir / "checkpoints" / job
        self._seen: dict[int, dict[str, float]] = defaultdict(dict)

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Sees every commit while this is open."""
        with repeating("commits", self._look, _LOOK_S):
            yield
        self._look()

    def pauses(self) -> dict[int, float]:
        """The longest time between two commits of each task while they were watched, in seconds."""
        times = {index: sorted(seen.values()) for index, seen in self._seen.items()}
        return {
            index: max(after - before for before, after in pairwise(of_task))
            for index, of_task in sorted(times.items())
        }

    def _look(self) -> None:
        generations = self._folder.glob("g*")
        newest = max(generations, key=lambda folder: int(folder.name.removeprefix("g")))
        for file in newest.glob("task-*/commits/*"):
            if file.name.isdigit():
                self._see(file)

    def _see(self, file: Path) -> None:
        index = int(file.parent.parent.name.removeprefix("task-"))
        try:
            self._seen[index][file.name] = file.stat().st_mtime
        except FileNotFoundError:  # an old batch goes
            return
