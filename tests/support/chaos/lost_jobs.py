"""Two jobs that nobody dared to run behind a shuffle: windows and sessions of event time, by a key that the rows were
not partitioned by. Rows are bids, as in Nexmark; what a batch query gives for them, DuckDB says."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import duckdb

from penstock.control.process import wait_until
from penstock.local.stack import LocalStack
from penstock.local.topics import create_topics
from penstock.wire.overview import TaskView
from tests.support.spark.session import unique
from tests.support.stack.counts import KEY_GROUPS, CountJob
from tests.support.stack.feeding import feeding, producer

DELAY_S = 20
WINDOW_S = 60
GAP_S = 10
WAIT_S = 400.0
_BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
_TRIGGER_S = 1.0
_AT_ONCE = 30
_PAUSE_S = 0.1
_STEP_S = 0.1
_DISORDER_S = 3.0
"""To both sides. With the rows that are sent at once, at most 9 s before the newest row: less than the delay."""
_AUCTIONS, _BIDDERS = 40, 60
_FAR_S = 10_000_000
_COLUMNS = "auction STRING, bidder STRING, price BIGINT, at TIMESTAMP"
_SHUFFLE = "SELECT auction, bidder, price, at FROM rows"
_WINDOWS = f"""SELECT bidder, unix_micros(window.end) AS until, count(*) AS n, sum(price) AS total
               FROM rows GROUP BY window(at, '{WINDOW_S} seconds'), bidder"""
_SESSIONS = f"""SELECT bidder, unix_micros(session_window.end) AS until, count(*) AS n, sum(price) AS total
                FROM rows GROUP BY session_window(at, '{GAP_S} seconds'), bidder"""
_MICROS = 1_000_000
_WINDOWS_IN_BATCH = f"""
    SELECT bidder, (us // {WINDOW_S * _MICROS} + 1) * {WINDOW_S * _MICROS} AS until, count(*), sum(price)
    FROM bids GROUP BY ALL"""
_SESSIONS_IN_BATCH = f"""
    WITH gaps AS (SELECT *, coalesce(us - lag(us) OVER one >= {GAP_S * _MICROS}, true) AS begins FROM bids
                  WINDOW one AS (PARTITION BY bidder ORDER BY us)),
         numbered AS (SELECT *, sum(begins::INT) OVER (PARTITION BY bidder ORDER BY us) AS session FROM gaps)
    SELECT bidder, max(us) + {GAP_S * _MICROS} AS until, count(*), sum(price) FROM numbered GROUP BY bidder, session"""

Bid = tuple[str, str, int, int]
"""Auction, bidder, price, and microseconds since 1970."""
Result = tuple[str, int, int, int]
"""Bidder, end in microseconds since 1970, number of bids, and the sum of their prices."""


class Bids:
    """Bids of a seed, thirty at once: three seconds of event time, out of order. It knows all that it sent."""

    def __init__(self, bootstrap: str, topic: str, dice: random.Random) -> None:
        self.sent: list[Bid] = []
        self._topic, self._dice, self._producer = topic, dice, producer(bootstrap)

    def flow(self) -> AbstractContextManager[None]:
        """Rows keep coming while this is open."""
        return feeding(self._topic, self._send_some, _PAUSE_S)

    def newest_s(self) -> float:
        """The event time that the rows have come to, in seconds."""
        return len(self.sent) * _STEP_S

    def close_all(self) -> None:
        """Sends rows of long after: by way of each task to each task."""
        for number in range(_BIDDERS):
            self._send(_bid(number % _AUCTIONS, number, 0, _FAR_S))
        self._producer.flush()

    def _send_some(self) -> None:
        fresh = [self._draw(len(self.sent) + number) for number in range(_AT_ONCE)]
        self.sent += fresh
        for bid in fresh:
            self._send(bid)
        self._producer.flush()

    def _draw(self, number: int) -> Bid:
        """Half of the bids are of one bidder, and who that is changes. The others bid seldom, so they have sessions."""
        dice, second = self._dice, number * _STEP_S
        bidder = int(second / (3 * GAP_S)) * 7 % _BIDDERS if dice.random() < 0.5 else dice.randrange(_BIDDERS)
        at = second + _DISORDER_S + dice.uniform(-_DISORDER_S, _DISORDER_S)
        return _bid(dice.randrange(_AUCTIONS), bidder, dice.randrange(1, 10_000), at)

    def _send(self, bid: Bid) -> None:
        auction, bidder, price, micros = bid
        at = datetime.fromtimestamp(0, UTC) + timedelta(microseconds=micros)
        row = {"auction": auction, "bidder": bidder, "price": price, "at": at.isoformat()}
        self._producer.produce(self._topic, key=auction, value=json.dumps(row))


class Link(CountJob):
    """One job of the chain, from its `entrance` to a topic that is partitioned by the bidder."""

    def __init__(self, stack: LocalStack, name: str, entrance: str, sql: str, *key: str) -> None:
        super().__init__(stack, name)
        self.entrance, self._sql, self._key = entrance, sql, key

    def put(self, task_count: int) -> None:
        """Topics and job; does not wait."""
        create_topics(self._bootstrap, dict.fromkeys(self.topics(), KEY_GROUPS))
        with self._stack.client() as client:
            client.put_job(self.name, self.config(task_count, _TRIGGER_S))

    def wait_runs(self, task_count: int) -> None:
        """Waits until the job runs with so many tasks; for long, since several jobs change at once."""
        with self._stack.client() as client:

            def runs() -> bool:
                view = client.get_job(self.name)
                return view.converged and view.config["task_count"] == task_count

            wait_until(runs, WAIT_S, f"{self.name} to run {task_count} tasks", poll_s=0.1)

    def topics(self) -> list[str]:
        """Those that are made with the job. The entrance of a reader is there."""
        return [f"{self.name}-out"] + ([self.name] if self.entrance == self.name else [])

    def config(self, task_count: int, trigger_interval_seconds: float) -> dict[str, Any]:
        """The job's base layer."""
        function, *columns = self._key
        source = {
            "topic": self.entrance,
            "key_groups": KEY_GROUPS,
            "value_schema": _COLUMNS,
            "key_function": function,
            "key_columns": columns,
            "event_time_column": "at",
            "watermark_delay": f"{DELAY_S} seconds",
        }
        to = {"type": "kafka", "topic": f"{self.name}-out", "key_groups": KEY_GROUPS, "key_columns": ["bidder"]}
        return {
            "inputs": {"rows": source},
            "query": {"sql": self._sql},
            "output": to,
            "output_mode": "append",
            "task_count": task_count,
            "trigger_interval_seconds": trigger_interval_seconds,
        }

    def results(self) -> Counter[Result]:
        """What a reader wrote, but for what the last rows of all opened."""
        rows = (json.loads(message.value() or b"") for message in self._reader.read(WAIT_S))
        return Counter((row["bidder"], row["until"], row["n"], row["total"]) for row in rows)

    def wait_further(self) -> None:
        """Waits until more results were written."""
        before = self.results().total()
        wait_until(lambda: self.results().total() > before, WAIT_S, f"{self.name} to write more", poll_s=0.5)

    def tasks(self) -> list[TaskView]:
        """Its tasks, as they were reported last."""
        with self._stack.client() as client:
            return client.tasks(self.name).tasks

    def container_of(self, index: int) -> str | None:
        """Where a task runs; None while that is not known."""
        found = [task.container for task in self.tasks() if (task.index, task.state) == (index, "running")]
        return found[0] if len(found) == 1 else None

    def wait_apart(self) -> None:
        """Waits until the tasks 0 and 1 run in different containers; a task moves if need be."""
        places = self._wait_places()
        if places[0] == places[1]:
            with self._stack.client() as client:
                client.move_task(self.name, 1, container=places[1], for_seconds=60)
            wait_until(lambda: len(set(self._wait_places())) == 2, WAIT_S, f"{self.name}/1 to move", poll_s=0.2)

    def _wait_places(self) -> Sequence[str]:
        def places() -> list[str]:
            found = [place for place in (self.container_of(index) for index in (0, 1)) if place is not None]
            return found if len(found) == 2 else []

        return wait_until(places, WAIT_S, f"{self.name} to run", poll_s=0.2)


class LostJobs:
    """A shuffle by another key, and two jobs that read it."""

    def __init__(self, stack: LocalStack, seed: int) -> None:
        self.dice = random.Random(seed)
        name = unique("bids")
        self.shuffle = Link(stack, name, name, _SHUFFLE, "kafka", "auction")
        self.windows = Link(stack, f"{name}-windows", f"{name}-out", _WINDOWS, "spark", "bidder")
        self.sessions = Link(stack, f"{name}-sessions", f"{name}-out", _SESSIONS, "spark", "bidder")
        self.bids = Bids(stack.plan.kafka_bootstrap, name, random.Random(seed))

    @property
    def readers(self) -> tuple[Link, Link]:
        """The jobs that group by event time."""
        return self.windows, self.sessions

    def create(self) -> None:
        """Waits until all run, with two tasks each."""
        jobs = (self.shuffle, *self.readers)
        for job in jobs:
            job.put(2)
        for job in jobs:
            job.wait_runs(2)

    def delete(self) -> None:
        """Asks for all to be deleted, the readers first."""
        for job in (*self.readers, self.shuffle):
            job.delete()

    def producers_in(self, container: str) -> set[str]:
        """The tasks of the shuffle that run there, as readers name them."""
        generation = self.shuffle.generation()
        return {f"{task.task}/{generation}" for task in self.shuffle.tasks() if task.container == container}

    def waiting_for(self, producers: set[str]) -> list[str]:
        """The tasks of readers whose watermark waits for one of these tasks of the shuffle."""
        tasks = [task for reader in self.readers for task in reader.tasks()]
        return [task.task for task in tasks if (task.progress or {}).get("held_back_by") in producers]

    def assert_exact(self, again: Link) -> None:
        """The results are those of a batch query, each once. Those of `again`, which went back to a savepoint, may be
        there twice, and some are."""
        self.bids.close_all()
        for job, query in ((self.windows, _WINDOWS_IN_BATCH), (self.sessions, _SESSIONS_IN_BATCH)):
            due = answer(query, self.bids.sent)
            with suppress(TimeoutError):  # what is missing then is told below
                wait_until(lambda: self._has(job, due), WAIT_S, f"{job.name} to write all", poll_s=1)  # noqa: B023
            found = job.results()
            print(f"{job.name}: {len(due)} results of {len(self.bids.sent)} rows, {found.total()} written")
            missing, more = due.keys() - found.keys(), found.keys() - due.keys()
            assert (sorted(missing), sorted(more)) == ([], [])
            assert set(found.values()) == ({1, 2} if job is again else {1})

    @staticmethod
    def _has(job: Link, due: Counter[Result]) -> bool:
        """Whether it wrote something for all that is due."""
        return {row[:2] for row in job.results()} >= {row[:2] for row in due}


def answer(query: str, bids: Sequence[Bid]) -> Counter[Result]:
    """What DuckDB says."""
    with duckdb.connect() as batch:
        batch.execute("CREATE TABLE bids (auction TEXT, bidder TEXT, price BIGINT, us BIGINT)")
        columns = [list(column) for column in zip(*bids, strict=True)]
        batch.execute("INSERT INTO bids SELECT unnest(?), unnest(?), unnest(?), unnest(?)", columns)
        return Counter((bidder, until, n, int(total)) for bidder, until, n, total in batch.execute(query).fetchall())


def _bid(auction: int, bidder: int, price: int, second: float) -> Bid:
    return f"a{auction}", f"b{bidder}", price, int((_BEGIN.timestamp() + second) * _MICROS)


@contextmanager
def lost_jobs(stack: LocalStack, seed: int) -> Iterator[LostJobs]:
    """The jobs run while this is open, and are deleted at the end."""
    jobs = LostJobs(stack, seed)
    jobs.create()
    try:
        yield jobs
    finally:
        jobs.delete()
