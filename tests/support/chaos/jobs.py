"""Jobs like the demo's, whose results tell every lost and every repeated row."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime, timedelta
from typing import Protocol

from penstock.control.process import wait_until
from penstock.local.stack import LocalStack
from penstock.local.topics import create_topics
from tests.support.kafka.sink import committed
from tests.support.stack.counts import CONVERGE_S, KEY_GROUPS, ROWS_AT_ONCE, SCHEMA, WORDS, CountJob
from tests.support.stack.feeding import feeding, producer
from tests.support.stack.rows import RowJob

PAUSE_S = 0.1
TASKS = 2
_TRIGGER_S = 0.5
_BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
_WINDOW_ROWS = 120
_LONG_AFTER = timedelta(days=1)


class Judged(Protocol):
    """A job that is fed, and whose result can be judged at any moment when rows do not flow."""

    name: str

    def begin(self) -> None:
        """Makes topics and jobs; returns when they run."""

    def flow(self) -> AbstractContextManager[None]:
        """Rows keep coming while this is open."""

    def end(self) -> None:
        """Waits until every row has its effect. Raises AssertionError when one has none, or more than one."""

    def parts(self) -> tuple[str, ...]:
        """The names of its jobs."""


class Rows(RowJob):
    """Stateless: rows from Kafka to Postgres."""

    def begin(self) -> None:
        self.create()

    def flow(self) -> AbstractContextManager[None]:
        return self.fed(PAUSE_S)

    def end(self) -> None:
        self.send_and_wait()
        self.assert_exact()

    def parts(self) -> tuple[str, ...]:
        return (self.name,)


class Counts(CountJob):
    """Keyed state, each change of a count sent to Kafka once."""

    def begin(self) -> None:
        self.create(TASKS, _TRIGGER_S)

    def flow(self) -> AbstractContextManager[None]:
        return self.fed(PAUSE_S)

    def end(self) -> None:
        self.send(WORDS)
        self.assert_exact()

    def parts(self) -> tuple[str, ...]:
        return (self.name,)


class GrowingCounts(Counts):
    """The same, and there is one task more from when rows begin to flow: the rescale goes on while faults come."""

    @contextmanager
    def flow(self) -> Iterator[None]:
        with super().flow():
            self.wait_for_a_count()
            before = self.generation()
            self.rescale(TASKS + 1)
            yield
        self.wait_runs(TASKS + 1)
        assert self.generation() != before


class Chain(Counts):
    """A stateless job that sends to Kafka by `penstock-kafka`, and the counts of what it sent."""

    key_function = "spark"

    def __init__(self, stack: LocalStack, name: str) -> None:
        super().__init__(stack, name)
        self.entrance = f"{name}-raw"

    def begin(self) -> None:
        create_topics(self._bootstrap, {self.entrance: KEY_GROUPS})
        super().begin()
        with self._stack.client() as client:
            client.put_job(self.entrance, self._first())
            wait_until(lambda: client.get_job(self.entrance).converged, CONVERGE_S, f"{self.entrance} to run")

    def parts(self) -> tuple[str, ...]:
        return (self.name, self.entrance)

    def _first(self) -> dict[str, object]:
        return {
            "inputs": {"rows": {"topic": self.entrance, "key_groups": KEY_GROUPS, "value_schema": SCHEMA}},
            "query": {"sql": "SELECT word, id FROM rows"},
            "output": {"type": "kafka", "topic": self.name, "key_groups": KEY_GROUPS, "key_columns": ["word"]},
            "task_count": TASKS,
            "trigger_interval_seconds": _TRIGGER_S,
        }


class Windows:
    """Rows counted by word and window of event time; each window is sent once, when the watermark has passed it.

    A row is a second of event time, and ten minutes may be late: more rows than any partition is ever ahead of another.
    """

    def __init__(self, stack: LocalStack, name: str) -> None:
        self.name = name
        self._stack = stack
        self._bootstrap = stack.plan.kafka_bootstrap
        self._producer = producer(self._bootstrap)
        self._sent = 0

    def begin(self) -> None:
        create_topics(self._bootstrap, {self.name: KEY_GROUPS, f"{self.name}-out": KEY_GROUPS})
        with self._stack.client() as client:
            client.put_job(self.name, self._config())
            wait_until(lambda: client.get_job(self.name).converged, CONVERGE_S, f"{self.name} to run")

    def flow(self) -> AbstractContextManager[None]:
        return feeding(self.name, self._send_some, PAUSE_S)

    def end(self) -> None:
        """Rows of long after close all windows."""
        for number in range(WORDS):
            self._send(f"w{number}", _BEGIN + _LONG_AFTER)
        self._producer.flush()
        due = self._due()
        wait_until(lambda: self._found().keys() >= due.keys(), CONVERGE_S, f"{self.name} to close its windows")
        assert self._found() == due

    def parts(self) -> tuple[str, ...]:
        return (self.name,)

    def _config(self) -> dict[str, object]:
        grouped = (
            "SELECT word, window(at, '2 minutes') AS w, count(*) AS n FROM rows GROUP BY word, window(at, '2 minutes')"
        )
        source = {
            "topic": self.name,
            "key_groups": KEY_GROUPS,
            "value_schema": "word STRING, at TIMESTAMP",
            "key_function": "kafka",
            "key_columns": ["word"],
            "event_time_column": "at",
            "watermark_delay": "10 minutes",
        }
        return {
            "inputs": {"rows": source},
            "query": {"sql": f"SELECT word, unix_seconds(w.start) AS start, n FROM ({grouped})"},
            "output": {"type": "kafka", "topic": f"{self.name}-out", "key_groups": KEY_GROUPS, "key_columns": ["word"]},
            "output_mode": "append",
            "task_count": TASKS,
            "trigger_interval_seconds": _TRIGGER_S,
        }

    def _send_some(self) -> None:
        for _ in range(ROWS_AT_ONCE):
            self._send(f"w{self._sent % WORDS}", _BEGIN + timedelta(seconds=self._sent))
            self._sent += 1
        self._producer.flush()

    def _send(self, word: str, at: datetime) -> None:
        self._producer.produce(self.name, key=word, value=json.dumps({"word": word, "at": at.isoformat()}))

    def _due(self) -> Counter[tuple[str, int, int]]:
        """Word, start of window, count: each once."""
        counts = Counter((f"w{number % WORDS}", number // _WINDOW_ROWS) for number in range(self._sent))
        start = int(_BEGIN.timestamp())
        return Counter((word, start + window * _WINDOW_ROWS, n) for (word, window), n in counts.items())

    def _found(self) -> Counter[tuple[str, int, int]]:
        rows = (json.loads(message.value() or b"") for message in committed(self._bootstrap, f"{self.name}-out"))
        return Counter((row["word"], row["start"], row["n"]) for row in rows)


@contextmanager
def running(stack: LocalStack, jobs: tuple[Judged, ...]) -> Iterator[None]:
    """The jobs run while this is open, and are deleted at the end."""
    for job in jobs:
        job.begin()
    yield
    with stack.client() as client:
        for job in jobs:
            for name in job.parts():
                client.delete_job(name)
