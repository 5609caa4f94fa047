"""A stateful job whose result is easy to judge: rows counted by word, each change of a count sent to Kafka once."""

from __future__ import annotations

import json
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from penstock.control.process import wait_until
from penstock.local.stack import LocalStack
from penstock.local.topics import create_topics
from penstock.spark.redistribute.seal import SEAL
from penstock.wire.overview import SyncView
from tests.support.kafka.sink import CommittedReader
from tests.support.stack.feeding import feeding, producer

KEY_GROUPS = 4
SCHEMA = "word STRING, id BIGINT"
WORDS = 40
CONVERGE_S = 180.0
ROWS_AT_ONCE = 10
PAUSE_S = 0.05
_LEAST_GAIN = 0.05


class Change(NamedTuple):
    """A rescale as its checkpoints tell it: from the last old commit to the first new one, and since the request."""

    down_s: float
    seconds: float


class CountJob:
    """A job that counts rows by word, exactly once, from a topic of the job's name into `<name>-out`."""

    key_function = "kafka"

    def __init__(self, stack: LocalStack, name: str) -> None:
        self.name = name
        self.entrance = name
        self._stack = stack
        self._bootstrap = stack.plan.kafka_bootstrap
        self._producer = producer(self._bootstrap)
        self._sent = 0

    @property
    def checkpoints(self) -> Checkpoints:
        """The job's checkpoints on disk."""
        return Checkpoints(self._stack, self.name)

    def create(self, task_count: int, trigger_interval_seconds: float = 0.2) -> None:
        """Topics and job; waits until it runs."""
        create_topics(self._bootstrap, dict.fromkeys(self.topics(), KEY_GROUPS))
        with self._stack.client() as client:
            client.put_job(self.name, self.config(task_count, trigger_interval_seconds))
        self.wait_runs(task_count)

    def topics(self) -> list[str]:
        """The topics of the job."""
        return [self.name, f"{self.name}-out"]

    def config(self, task_count: int, trigger_interval_seconds: float) -> dict[str, Any]:
        """The job's base layer."""
        return {
            "inputs": {
                "rows": {
                    "topic": self.name,
                    "key_groups": KEY_GROUPS,
                    "value_schema": SCHEMA,
                    "key_function": self.key_function,
                    "key_columns": ["word"],
                }
            },
            "query": {"sql": "SELECT word, count(*) AS n, sum(id) AS total FROM rows GROUP BY word"},
            "output": {
                "type": "kafka",
                "topic": f"{self.name}-out",
                "key_groups": KEY_GROUPS,
                "key_columns": ["word"],
            },
            "output_mode": "update",
            "task_count": task_count,
            "trigger_interval_seconds": trigger_interval_seconds,
        }

    def size(self) -> int:
        """The number of tasks that the job is to have."""
        with self._stack.client() as client:
            return int(client.get_job(self.name).config["task_count"])

    def rescale(self, task_count: int) -> None:
        """Asks for another number of tasks."""
        with self._stack.client() as client:
            client.rescale(self.name, task_count, reason="test")

    def rebalance_and_wait(self, bounds: list[int]) -> None:
        """Waits until the measured traffic proposes these bounds, asks for them, and waits until they are in force.

        Prints how long both took.
        """

        def proposed() -> bool:
            with self._stack.client() as client:
                found = client.balance(self.name, min_measured_seconds=1)
            return found.bounds == bounds and (found.gain or 0.0) > _LEAST_GAIN

        begun_at = time.time()
        wait_until(proposed, CONVERGE_S, f"the traffic of {self.name} to be measured", poll_s=0.1)
        measured_at = time.time()
        with self._stack.client() as client:
            asked = client.rebalance(self.name, min_gain=0.0, min_measured_seconds=1, reason="test")
        assert asked.bounds == bounds
        self.wait_runs(len(bounds) + 1)
        with self._stack.client() as client:
            assert client.get_job(self.name).config["key_group_bounds"] == bounds
        print(
            f"{self.name} measured in {measured_at - begun_at:.1f} s, rebalanced in {time.time() - measured_at:.1f} s"
        )

    def save(self, name: str) -> None:
        """Takes a savepoint and waits until it is ready."""

        def ready() -> bool:
            with self._stack.client() as client:
                saved = client.savepoint(self.name, name)
            assert saved.state in ("asked", "ready"), saved.detail
            return saved.state == "ready"

        with self._stack.client() as client:
            client.create_savepoint(self.name, name, reason="test")
        wait_until(ready, CONVERGE_S, f"the savepoint {name} of {self.name}", poll_s=0.05)

    def remove(self, savepoint: str) -> None:
        """Deletes a savepoint and waits until it is gone."""

        def gone() -> bool:
            with self._stack.client() as client:
                return savepoint not in [view.name for view in client.savepoints(self.name).savepoints]

        with self._stack.client() as client:
            client.delete_savepoint(self.name, savepoint)
        wait_until(gone, CONVERGE_S, f"the savepoint {savepoint} of {self.name} to go", poll_s=0.05)

    def restore(self, savepoint: str, task_count: int) -> None:
        """Goes back to a savepoint with so many tasks, and waits until they run."""
        with self._stack.client() as client:
            client.restore(self.name, savepoint, task_count=task_count, reason="test")
        self.wait_runs(task_count)

    def wait_runs(self, task_count: int) -> None:
        """Waits until the job runs with so many tasks."""

        def runs() -> bool:
            with self._stack.client() as client:
                view = client.get_job(self.name)
                return view.converged and view.config["task_count"] == task_count

        wait_until(runs, CONVERGE_S, f"{self.name} to run {task_count} tasks", poll_s=0.05)

    def wait_settled(self) -> None:
        """Waits until the State Syncer has nothing left to do about the job; nobody is to be alarmed about it."""

        def settled() -> bool:
            sync = self.sync()
            return (sync.state, sync.plan, sync.failures) == ("synced", None, 0)

        wait_until(settled, CONVERGE_S, f"the plan of {self.name} to end", poll_s=0.05)
        with self._stack.client() as client:
            assert client.alerts(subject=self.name).alerts == []

    def sync(self) -> SyncView:
        """How far the job is."""
        with self._stack.client() as client:
            return client.sync(self.name)

    @contextmanager
    def fed(self, pause_s: float = PAUSE_S) -> Iterator[None]:
        """Rows keep coming while this is open: some at once, then a pause."""
        with feeding(self.name, lambda: self._send(ROWS_AT_ONCE), pause_s):
            yield

    def wait_only(self, generations: list[int]) -> None:
        """Waits until no others have checkpoints, and checks that these have."""
        folders = self.checkpoints
        wait_until(lambda: set(folders.kept()) <= set(generations), CONVERGE_S, f"old ones of {self.name} to go")
        assert folders.kept() == generations

    def rescale_and_wait(self, task_count: int) -> Change:
        """Rescales, and waits until new tasks have committed."""
        before, asked_at = self.generation(), time.time()
        self.rescale(task_count)
        return self.wait_changed(before, asked_at, task_count)

    def wait_changed(self, before: int, asked_at: float, task_count: int) -> Change:
        """Waits until the tasks of another generation than `before` have committed; when, and how long none did."""
        self.wait_runs(task_count)
        after = self.generation()
        wait_until(lambda: self.checkpoints.has_gone_on(after), CONVERGE_S, f"{self.name} to commit again")
        last, first = self.checkpoints.last_commit(before), self.checkpoints.first_commit(after)
        change = Change(first - last, first - asked_at)
        print(
            f"{self.name} to {task_count} tasks: down {change.down_s:.2f} s, {change.seconds:.2f} s after the request"
        )
        return change

    def generation(self) -> int:
        """The one that runs. Raises AssertionError when none does."""
        generation = self.sync().generation
        assert generation is not None
        return generation

    def send(self, rows: int) -> None:
        """Sends rows and waits until they are counted."""
        self._send(rows)
        self.wait_counted()

    def wait_for_a_count(self) -> None:
        """Waits until something was counted."""
        wait_until(lambda: bool(self._newest()), CONVERGE_S, f"{self.name} to count", poll_s=0.2)

    def wait_counted(self) -> None:
        """Waits until every row that was sent is counted, and nothing else was."""
        wait_until(self.is_counted, CONVERGE_S, f"{self.name} to count every row", poll_s=0.2)

    def wait_counted_again(self) -> None:
        """Waits until something was counted a second time, as after a restore, when nothing else came since."""

        def went_back() -> bool:
            return any(len(set(counts)) < len(counts) for counts in self._counts().values())

        wait_until(went_back, CONVERGE_S, f"{self.name} to count again", poll_s=0.2)

    def is_counted(self) -> bool:
        """Whether the newest counts are those of all rows that were sent."""
        return self._newest() == self._due()

    def assert_exact(self) -> None:
        """Every row was counted once, and no count was sent twice or after a higher one."""
        assert self.is_counted()
        repeated = {word: ns for word, ns in self._counts().items() if ns != sorted(set(ns))}
        assert not repeated

    def assert_counted_again_from(self, savepoint_rows: int) -> None:
        """What was counted after a savepoint was counted again from there, and nothing before it."""
        assert self._newest() == self._due()
        for word, counts in self._counts().items():
            back = [n for before, n in pairwise(counts) if n <= before]
            assert len(back) <= 1, f"{word} went back more than once: {counts}"
            assert all(n > savepoint_rows // WORDS for n in back), f"{word} lost what the savepoint had: {counts}"

    def delete(self) -> None:
        """Asks for the job to be deleted."""
        with self._stack.client() as client:
            client.delete_job(self.name)
        self._reader.close()

    def _send(self, rows: int) -> None:
        for _ in range(rows):
            word = self.word(self._sent)
            self._producer.produce(self.entrance, key=word, value=json.dumps({"word": word, "id": self._sent}))
            self._sent += 1
        self._producer.flush()

    def word(self, number: int) -> str:
        """The word of a row."""
        return f"w{number % WORDS}"

    def _due(self) -> dict[str, tuple[int, int]]:
        """By word: rows that were sent, and the sum of their ids."""
        rows, totals = Counter[str](), Counter[str]()
        for number in range(self._sent):
            rows[self.word(number)] += 1
            totals[self.word(number)] += number
        return {word: (rows[word], totals[word]) for word in rows}

    def _newest(self) -> dict[str, tuple[int, int]]:
        return {row["word"]: (row["n"], row["total"]) for row in self._emitted()}

    def _counts(self) -> dict[str, list[int]]:
        """The counts that were sent, by word, in their order."""
        counts: dict[str, list[int]] = defaultdict(list)
        for row in self._emitted():
            counts[row["word"]].append(row["n"])
        return counts

    def _emitted(self) -> list[dict[str, Any]]:
        return [json.loads(message.value() or b"") for message in self._reader.read()]

    @cached_property
    def _reader(self) -> CommittedReader:
        return CommittedReader(self._bootstrap, f"{self.name}-out")


class Checkpoints:
    """A job's generations on disk."""

    def __init__(self, stack: LocalStack, job: str) -> None:
        self._folder = stack.data_dir / "checkpoints" / job

    def generations(self) -> list[int]:
        """All that were ever begun."""
        return sorted(int(folder.name.removeprefix("g")) for folder in self._folder.glob("g*"))

    def kept(self) -> list[int]:
        """Those that have a checkpoint of a task."""
        return [number for number in self.generations() if any(self._folder.glob(f"g{number}/task-*"))]

    def is_over(self, generation: int) -> bool:
        """Whether no task of a generation can run: it was sealed, or never finished by a redistribution."""
        tasks = list(self._folder.glob(f"g{generation}/task-*"))
        return all(_is_sealed(task) for task in tasks) or not all(_is_begun(task) for task in tasks)

    def has_gone_on(self, generation: int) -> bool:
        """Whether a task of a generation has committed more than the redistribution did."""
        return any(self._own_commits(generation))

    def last_commit(self, generation: int) -> float:
        """When a task of a generation committed last, or the redistribution finished its batch: seconds since 1970."""
        return max(file.stat().st_mtime for file in self._commits(generation))

    def first_commit(self, generation: int) -> float:
        """When a task of a generation committed first, in seconds since 1970."""
        return min(file.stat().st_mtime for file in self._own_commits(generation))

    def _own_commits(self, generation: int) -> Iterator[Path]:
        """Without the first batch of each task, which is the redistribution's."""
        by_task: dict[Path, list[Path]] = {}
        for file in self._commits(generation):
            by_task.setdefault(file.parent, []).append(file)
        for files in by_task.values():
            yield from sorted(files, key=lambda file: int(file.name))[1:]

    def _commits(self, generation: int) -> Iterator[Path]:
        return (file for file in self._folder.glob(f"g{generation}/task-*/commits/*") if file.name.isdigit())


def _is_begun(task: Path) -> bool:
    return any(file.name.isdigit() for file in (task / "commits").glob("*"))


def _is_sealed(task: Path) -> bool:
    newest = max((file for file in (task / "offsets").glob("[0-9]*")), key=lambda file: int(file.name), default=None)
    return newest is not None and newest.read_bytes().startswith(SEAL)
