"""Jobs of a day in the life of one host: they start, stop, change their size, and crash."""

from __future__ import annotations

import random
from collections.abc import Sequence
from contextlib import suppress
from queue import Empty
from typing import Any, NamedTuple

from confluent_kafka import Producer

from penstock.config.keygroups import ranges
from penstock.config.model import JobConfig
from penstock.control.process import wait_until
from penstock.spark.channel import Command, Stop, TaskEnded
from penstock.spark.redistribute.positions import task_specs
from penstock.tasks.redistribution import CopyRequest, GenerationRemoval, Layout, RedistributionRequest, SealRequest
from tests.support.spark.hosts import REPLY_SECONDS, Supervisor, make_topic, run_host_task
from tests.support.spark.session import unique
from tests.support.spark.spark_hash import key_group

KEY_GROUPS = 4
KEYS = tuple(f"key-{number}" for number in range(200))
POISON = -1
_BREAK_S = 5.0


class Kind(NamedTuple):
    """A query over `events` (k, v, at), and how it keeps its state."""

    sql: str
    backend: str = "heap"
    mode: str = "update"
    is_stateful: bool = True


KINDS = (
    Kind("SELECT k, v * 2 AS twice FROM events", mode="append", is_stateful=False),
    Kind("SELECT k, count(*) AS c, sum(v) AS s FROM events GROUP BY k"),
    Kind("SELECT k, max(v) AS most FROM events GROUP BY k", "rocksdb"),
    Kind(
        "SELECT window.end AS until, k, count(*) AS c FROM events GROUP BY window(at, '10 seconds'), k", mode="append"
    ),
)
"""What changes its size."""
FRAGILE = Kind("SELECT k, IF(v < 0, raise_error('poison'), v) AS v FROM events", mode="append", is_stateful=False)


class Rows:
    """Topics, and rows for them: each key where Spark's hash puts it."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20})
        self._sent = 0

    def topic(self) -> str:
        """A new topic."""
        return make_topic(self._bootstrap, KEY_GROUPS)

    def send(self, topic: str, value: int | None = None) -> None:
        """A row of each key, ten seconds later in event time than those before; `value` for all, else numbers."""
        self._sent += 1
        at = f"2026-01-{1 + self._sent // 8640:02}T{self._sent // 360 % 24:02}:{self._sent // 6 % 60:02}"
        for number, key in enumerate(KEYS):
            v = number if value is None else value
            row = f'{{"k":"{key}","v":{v},"at":"{at}:{self._sent % 6}0Z"}}'
            self._producer.produce(topic, key=key, value=row, partition=key_group(key, KEY_GROUPS))
        self._producer.flush(30)


class DayJob:
    """A job on the host, which runs or is stopped. Raises RuntimeError when the host refuses what it is asked."""

    def __init__(self, host: Supervisor, rows: Rows, kind: Kind, topic: str) -> None:
        self.kind = kind
        self.topic = topic
        self.tasks = 1
        self.runs = False
        self._host = host
        self._name = unique("day")
        self._output = rows.topic()
        self._epoch = 0
        self._generation = 1

    def start(self) -> None:
        """All its tasks, under the next epoch."""
        self._epoch += 1
        specs = task_specs(self._name, self._layout(self._generation, self.tasks))
        _require_ok([self._host.send_start(spec, self._epoch) for spec in specs])
        self.runs = True

    def stop(self) -> None:
        """All its tasks; what is pending is finished."""
        stops = [Stop(id=0, task_id=f"{self._name}/{index}", finish_pending=True) for index in range(self.tasks)]
        self._ask(*stops)
        self.runs = False

    def rescale(self, tasks: int) -> None:
        """To so many tasks, as a control plane does it: state is copied while they run, the old generation is sealed
        and removed."""
        source = self._layout(self._generation, self.tasks)
        target = self._layout(self._generation + 1, tasks)
        if self.kind.is_stateful:
            self._ask(run_host_task(CopyRequest(job=self._name, source=source, target=target)))
        self.stop()
        self._ask(run_host_task(RedistributionRequest(job=self._name, source=source, target=target)))
        self._ask(run_host_task(SealRequest(job=self._name, layout=source)))
        self._ask(run_host_task(GenerationRemoval(job=self._name, generation=self._generation)))
        self._generation, self.tasks = self._generation + 1, tasks
        self.start()

    def crash(self, rows: Rows) -> None:
        """A row breaks its query. It starts anew behind that row.

        A query that began just now may not have asked yet what the latest offsets are: it does not read the first row.
        """
        ended = wait_until(lambda: self._ended_by(rows), REPLY_SECONDS, f"{self._name} to break")
        if "poison" not in ended.error:
            raise RuntimeError(f"{ended.task_id} ended: {ended.error}")
        self._generation += 1
        self.start()

    def _ended_by(self, rows: Rows) -> TaskEnded | None:
        rows.send(self.topic, POISON)
        with suppress(Empty):
            return self._host.ended.get(timeout=_BREAK_S)
        return None

    def _ask(self, *commands: Command) -> None:
        _require_ok([self._host.host.send(command) for command in commands])

    def _layout(self, generation: int, tasks: int) -> Layout:
        return Layout(generation=generation, config=self._config(tasks), ranges=ranges(KEY_GROUPS, tasks))

    def _config(self, tasks: int) -> JobConfig:
        source = {
            "topic": self.topic,
            "key_groups": KEY_GROUPS,
            "value_schema": "k STRING, v BIGINT, at TIMESTAMP",
            "key_function": "spark",
            "key_columns": ["k"],
            "event_time_column": "at",
            "watermark_delay": "10 seconds",
            "starting_position": "latest" if self.kind is FRAGILE else "earliest",
        }
        return JobConfig.model_validate(
            {
                "inputs": {"events": source},
                "query": {"sql": self.kind.sql},
                "output": {"type": "kafka", "topic": self._output},
                "output_mode": self.kind.mode,
                "state_backend": self.kind.backend,
                "task_count": tasks,
                "trigger_interval_seconds": 0.5,
            }
        )


def happen(job: DayJob, rows: Rows, dice: random.Random) -> str:
    """Something happens to a job; says what."""
    if not job.runs:
        job.start()
        return "start"
    if job.kind is FRAGILE:
        job.crash(rows)
        return "crash"
    if dice.random() < 0.5:
        job.stop()
        return "stop"
    job.rescale(dice.choice([size for size in range(1, KEY_GROUPS + 1) if size != job.tasks]))
    return "rescale"


def _require_ok(answers: Sequence[Any]) -> None:
    for answer in answers:
        reply = answer.result(REPLY_SECONDS)
        if not reply.ok:
            raise RuntimeError(reply.error)
