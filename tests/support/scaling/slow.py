"""A stateful job that takes a fixed time for each row, as one that asks a service with a limit of calls a second.

A task keeps to the limit. So what it gets through is bounded, whatever the machine, and more tasks get through more.
Penstock is not told of that: it measures the batches.
"""

from __future__ import annotations

import json
import tempfile
import threading
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from penstock.control.process import wait_until
from penstock.local.stack import LocalStack
from penstock.local.topics import create_topics
from penstock.spark.inputs.key_hash import murmur2
from penstock.spark.packages import pack
from tests.support.kafka.sink import committed
from tests.support.scaling.ledger import Ledger
from tests.support.spark.session import unique
from tests.support.stack.counts import CONVERGE_S, KEY_GROUPS, WORDS, CountJob
from tests.support.stack.rows import RowJob

PACKAGE = "slow"
SECONDS_PER_ROW = 0.05
ROWS_PER_SECOND = 1 / SECONDS_PER_ROW
"""What a task does at most. What it does in fact is a little less."""
_TRIGGER_S = 5.0
_ROWS_A_BATCH = 100
BEGINNING = threading.Lock()
"""Jobs begin one after the other: each is analysed by Spark, which takes its time on a small machine."""
_CODE = '''
import time

from pyspark.sql import functions as F
from pyspark.sql.types import LongType

SLACK = 0.05


def count(session, inputs, args):
    """Rows by word, each after the answer to its question; a task asks one after the other."""
    seconds, told = args["seconds_per_row"], {}

    def ask(number):
        now = time.monotonic()
        told["next"] = told.get("next", now) + seconds
        if told["next"] - now > SLACK:
            time.sleep(told["next"] - now)
        return number

    answered = inputs["rows"].coalesce(1).withColumn("id", F.udf(ask, LongType())("id"))
    return answered.groupBy("word").agg(F.count("*").alias("n"), F.sum("id").alias("total"))
'''


def publish(stack: LocalStack) -> None:
    """The package of all slow jobs."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "slow.py").write_text(_CODE)
        pack(Path(folder), PACKAGE, "1", stack.data_dir / "packages")


class SlowJob(CountJob):
    """Counts rows by word. `slo_seconds`: its SLO."""

    def __init__(self, stack: LocalStack, name: str, slo_seconds: float = 60.0) -> None:
        super().__init__(stack, name)
        self._slo_seconds = slo_seconds
        self.ledger = Ledger(stack, name)

    def config(self, task_count: int, trigger_interval_seconds: float) -> dict[str, Any]:
        """The job's base layer."""
        return super().config(task_count, trigger_interval_seconds) | {
            "package": {"name": PACKAGE, "version": "1"},
            "query": {"python": "slow:count"},
            "args": {"seconds_per_row": SECONDS_PER_ROW},
            "max_records_per_trigger": _ROWS_A_BATCH,
            "slo": {"max_lag_seconds": self._slo_seconds},
        }

    def begin(self, task_count: int = 1) -> None:
        """Topics and job; waits until it runs."""
        with BEGINNING:
            self.create(task_count, _TRIGGER_S)

    def put(self, rows: int) -> None:
        """Sends rows, and waits for nothing."""
        self._send(rows)

    def waiting(self) -> int:
        """Rows that were sent and are not counted."""
        return self._sent - sum(rows for rows, _ in self._newest().values())

    def override(self, config: Mapping[str, Any], **options: Any) -> None:
        """Patches the layer `oncall`."""
        with self._stack.client() as client:
            version = client.get_layer(self.name, "oncall").version
            client.patch_layer(self.name, "oncall", config, if_match=version, **{"reason": "test"} | options)

    def wait_stopped(self) -> None:
        """Waits until it has no tasks, as it was asked."""

        def stopped() -> bool:
            with self._stack.client() as client:
                return client.get_job(self.name).converged and not client.tasks(self.name).tasks

        wait_until(stopped, CONVERGE_S, f"{self.name} to stop", poll_s=0.2)


def warm_up(stack: LocalStack) -> None:
    """Starts the hosts of all slow jobs. The first batches of a host are slow, which is another story."""
    job = SlowJob(stack, unique("warm"))
    job.begin(task_count=KEY_GROUPS)
    job.send(40 * WORDS)
    job.delete()


class LimitedJob(SlowJob):
    """May have one task only."""

    def config(self, task_count: int, trigger_interval_seconds: float) -> dict[str, Any]:
        """The job's base layer."""
        return super().config(task_count, trigger_interval_seconds) | {"max_task_count": 1}


class HotJob(SlowJob):
    """Nine of ten rows are in the first two key groups of four, which one of two tasks reads: half of all in the first.

    So two tasks have half each when one of them reads the first key group, and the other one the rest.
    """

    def word(self, number: int) -> str:
        """The word of a row."""
        tenth = number % 10
        words = COLD if tenth == 0 else HOT[tenth % 2]
        return words[number // 10 % len(words)]


def _words(key_groups: set[int]) -> list[str]:
    known = {f"w{number}": murmur2(f"w{number}".encode()) & 0x7FFFFFFF for number in range(WORDS)}
    return [word for word, placed in known.items() if placed % KEY_GROUPS in key_groups]


HOT, COLD = (_words({1}), _words({0})), _words({2, 3})


class SinkJob(RowJob):
    """Copies rows to Postgres, and should be behind by 40 s at most."""

    def __init__(self, stack: LocalStack, name: str) -> None:
        super().__init__(stack, name)
        self.ledger = Ledger(stack, name)

    def config(self) -> dict[str, object]:
        """The job's base layer."""
        return super().config() | {"slo": {"max_lag_seconds": 40.0}, "trigger_interval_seconds": 2.0}

    def begin(self) -> None:
        """Topic and job; waits until it runs."""
        with BEGINNING:
            self.create()


class LargeRowJob(RowJob):
    """An isolated task that makes of each row a text of as many MB as the row says, and sends the length of it."""

    def __init__(self, stack: LocalStack, name: str) -> None:
        super().__init__(stack, name)
        self.ledger = Ledger(stack, name)

    def config(self) -> dict[str, object]:
        """The job's base layer. Its memory is the default: 400 MiB."""
        source = {"topic": self.name, "key_groups": KEY_GROUPS, "value_schema": "id BIGINT, mb INT"}
        return super().config() | {
            "inputs": {"rows": source},
            "query": {"sql": "SELECT id, length(repeat('x', coalesce(mb, 1) * 1000000)) AS size FROM rows"},
            "output": {"type": "kafka", "topic": self._answers, "key_groups": KEY_GROUPS},
            "isolation": "process",
            "task_count": 1,
            "trigger_interval_seconds": 2.0,
        }

    def begin(self) -> None:
        """Topics and job; waits until it runs."""
        with BEGINNING:
            create_topics(self._bootstrap, {self._answers: KEY_GROUPS})
            self.create()

    def send_large(self, megabytes: int) -> None:
        """One row of so much."""
        self._send_row({"id": self.sent, "mb": megabytes})

    def counts(self) -> dict[int, int]:
        """How often each id was sent on."""
        answers = committed(self._bootstrap, self._answers)
        return Counter(json.loads(message.value() or b"")["id"] for message in answers)

    @property
    def _answers(self) -> str:
        return f"{self.name}-out"
