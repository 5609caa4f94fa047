"""A job whose result is easy to judge: each row that is sent must be in a Postgres table exactly once."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import psycopg

from penstock.control.errors import NotFound
from penstock.control.process import wait_until
from penstock.local.stack import LocalStack
from penstock.local.topics import create_topics
from penstock.store.address import libpq_url
from penstock.wire.jobs import Written
from tests.support.stack.feeding import feeding, producer

KEY_GROUPS = 4
ROWS_AT_ONCE = 10
CONVERGE_S = 120.0
ARRIVE_S = 90.0


class RowJob:
    """A job that copies rows from a topic to a table, appended; both have the job's name."""

    def __init__(self, stack: LocalStack, name: str) -> None:
        self.name = name
        self._stack = stack
        self._bootstrap = stack.plan.kafka_bootstrap
        self._producer = producer(self._bootstrap)
        self._changes = 0
        self.sent = 0

    def config(self) -> dict[str, object]:
        """The job's base layer."""
        source = {"topic": self.name, "key_groups": KEY_GROUPS, "value_schema": "id BIGINT"}
        return {
            "inputs": {"rows": source},
            "query": {"sql": "SELECT id FROM rows"},
            "output": {"type": "postgres", "connection": "demo", "table": self.name},
            "task_count": 2,
            "trigger_interval_seconds": 0.5,
        }

    def create(self) -> None:
        """Topic and job; waits until it runs."""
        create_topics(self._bootstrap, {self.name: KEY_GROUPS})
        with self._stack.client() as client:
            client.put_job(self.name, self.config())
        self.wait_converged()

    def delete(self) -> None:
        """Deletes the job and waits until it is forgotten."""
        with self._stack.client() as client:
            client.delete_job(self.name)
        wait_until(self.is_forgotten, CONVERGE_S, f"{self.name} to be forgotten")
        del self._producer

    def is_forgotten(self) -> bool:
        """Whether the job is no longer known."""
        with self._stack.client() as client:
            try:
                client.get_job(self.name)
            except NotFound:
                return True
        return False

    def wait_converged(self) -> None:
        """Waits until all tasks run what is expected."""
        with self._stack.client() as client:
            wait_until(lambda: client.get_job(self.name).converged, CONVERGE_S, f"{self.name} to converge", poll_s=0.1)

    def change(self) -> Written:
        """Overrides the trigger interval by one that it never had, which restarts the tasks."""
        self._changes += 1
        return self.override({"trigger_interval_seconds": 0.3 + 0.001 * self._changes})

    def override(self, config: Mapping[str, object], **options: Any) -> Written:
        """Patches the layer `oncall` as it is now."""
        with self._stack.client() as client:
            version = client.get_layer(self.name, "oncall").version
            return client.patch_layer(self.name, "oncall", config, if_match=version, reason="test", **options)

    def containers(self) -> set[str]:
        """The containers that run the job's tasks, as reported."""
        with self._stack.client() as client:
            return {task.container for task in client.tasks(self.name).tasks if task.container is not None}

    def send(self, count: int) -> None:
        """Sends rows with ids of their own, spread over the partitions."""
        for _ in range(count):
            self._send_row({"id": self.sent})
        self._producer.flush()

    @contextmanager
    def fed(self, pause_s: float) -> Iterator[None]:
        """Rows keep coming while this is open."""
        with feeding(self.name, lambda: self.send(ROWS_AT_ONCE), pause_s):
            yield

    def send_and_wait(self, count: int = 40) -> None:
        """Sends rows and waits until every row ever sent is in the table."""
        self.send(count)
        wait_until(lambda: len(self.counts()) == self.sent, ARRIVE_S, f"{self.sent} rows in {self.name}", poll_s=0.1)

    def _send_row(self, row: Mapping[str, int]) -> None:
        self._producer.produce(self.name, value=json.dumps(row).encode(), partition=self.sent % KEY_GROUPS)
        self.sent += 1

    def counts(self) -> dict[int, int]:
        """How often each id is in the table."""
        with psycopg.connect(libpq_url(self._stack.plan.connections["demo"])) as connection:
            if connection.execute("SELECT to_regclass(%s)", (self.name,)).fetchone() == (None,):
                return {}
            rows = connection.execute(f"SELECT id, count(*) FROM {self.name} GROUP BY id".encode()).fetchall()
        return {int(row[0]): int(row[1]) for row in rows}

    def assert_exact(self) -> None:
        """Every row that was sent is there, once."""
        assert self.counts() == dict.fromkeys(range(self.sent), 1)
