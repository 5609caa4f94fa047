"""Jobs of a stack with something wrong, each of which ends with its block."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from penstock.local.stack import LocalStack
from penstock.local.topics import create_topics
from tests.support.spark.session import unique
from tests.support.stack.rows import KEY_GROUPS, RowJob


class AilingJob(RowJob):
    """A job of one task. `source`, `shape`: what its input and its base layer have in place of what a `RowJob` has."""

    def __init__(self, stack: LocalStack, name: str, source: Mapping[str, Any], shape: Mapping[str, Any]) -> None:
        super().__init__(stack, name)
        self._source = {"topic": name, "key_groups": KEY_GROUPS, "value_schema": "id BIGINT", **source}
        self._shape = shape

    def config(self) -> dict[str, object]:
        """The job's base layer."""
        return {**super().config(), "inputs": {"rows": self._source}, "task_count": 1, **self._shape}

    def put(self, *, topic: bool = True) -> None:
        """Topic and job; waits for nothing. Without a topic Spark is not asked: it would refuse the job."""
        if topic:
            create_topics(self._bootstrap, {self.name: KEY_GROUPS})
        with self._stack.client() as client:
            client.put_job(self.name, self.config(), verify=topic)

    def send_text(self, text: str) -> None:
        """A record as it is."""
        self._producer.produce(self.name, value=text.encode(), partition=0)
        self._producer.flush()

    def send_now(self) -> None:
        """A row with the time in each partition."""
        for partition in range(KEY_GROUPS):
            row = {"id": partition, "at": datetime.now(UTC).isoformat()}
            self._producer.produce(self.name, value=json.dumps(row), partition=partition)
        self._producer.flush()


@contextmanager
def ailing(
    stack: LocalStack, *, topic: bool = True, source: Mapping[str, Any] | None = None, **shape: Any
) -> Iterator[AilingJob]:
    """A job that was written, and that may never run. Without `topic` its input is not made."""
    job = AilingJob(stack, unique("ailing").replace("-", "_"), source or {}, shape)
    job.put(topic=topic)
    try:
        yield job
    finally:
        job.delete()


TIMED = {"value_schema": "id BIGINT, at TIMESTAMP", "event_time_column": "at", "watermark_delay": "1 second"}
"""Of the input of a job that reads rows with their event time."""
