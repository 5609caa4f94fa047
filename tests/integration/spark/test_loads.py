"""What the tasks of one host are seen to use, with real Kafka."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import mean
from typing import Any

import pytest

from penstock.control.process import wait_until
from penstock.local.kafka import EmbeddedKafka
from penstock.spark.host.exits import ExitReason
from penstock.tasks.dimensions import CPU, DISK, MEMORY, NETWORK
from penstock.tasks.heap import heap_for
from tests.support.spark.hosts import (
    REPLY_SECONDS,
    Supervisor,
    job_config,
    jvm_pid,
    make_topic,
    produce,
    running_host,
    settings_for,
    task_spec,
    wait_gone,
)

ALL = {CPU, MEMORY, DISK, NETWORK}
HEAVY = "SELECT n, sha2(repeat(word, 2000), 512) AS word FROM events"
LARGE = "SELECT n, array_join(array_repeat(word, 1000000), '-') AS word FROM events"
COUNTS = "SELECT n, count(*) AS times FROM events GROUP BY n"
WORD_BYTES = 100
WINDOW = 10
"""Spark counts the CPU of its tasks when they end, so a single measurement says little: the mean of so many does."""


def start(host: Supervisor, folder: Path, job: str, topic: str, **more: Any) -> str:
    output = more.pop("output", {"type": "files", "path": str(folder / "out" / job)})
    spec = task_spec(job, job_config(topic, 1, output, **more))
    reply = host.start(spec)
    assert reply.ok, reply.error
    return spec.task_id


def known(host: Supervisor, *task_ids: str) -> dict[str, dict[str, float]]:
    """A measurement in which all is known of these tasks."""
    wait_until(lambda: not _unknown(host.loads, task_ids), 90, "loads to be known")
    return host.loads


def _unknown(loads: Mapping[str, Mapping[str, float]], task_ids: Sequence[str]) -> list[str]:
    return [f"{name} of {task_id}" for task_id in task_ids for name in ALL - loads.get(task_id, {}).keys()]


class Rows:
    """Rows that come all the time, each with a key of its own."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._feed, args=(bootstrap, topic))

    def __enter__(self) -> Rows:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _feed(self, bootstrap: str, topic: str) -> None:
        number = 0
        while not self._stop.wait(0.1):
            produce(bootstrap, topic, ({"n": n, "word": "w" * WORD_BYTES} for n in range(number, number + 20)), 1)
            number += 20


@pytest.mark.long  # e2e/test_loads.py sees loads of real tasks
def test_a_busy_task_uses_more_than_an_idle_one_of_the_same_host(
    shared_host: Supervisor, kafka: EmbeddedKafka, shared_folder: Path
) -> None:
    """1. All loads are known. 2. Over ten measurements the busy task uses several times the CPU; the idle one sends
    nothing."""
    busy_topic = make_topic(kafka.bootstrap, 1)
    output = {"type": "kafka", "topic": make_topic(kafka.bootstrap, 1)}
    busy = start(shared_host, shared_folder, "busy", busy_topic, output=output, query={"sql": HEAVY})
    idle = start(shared_host, shared_folder, "idle", make_topic(kafka.bootstrap, 1), trigger_interval_seconds=5)
    with Rows(kafka.bootstrap, busy_topic):
        means = Means(shared_host, busy, idle)
        loads = wait_until(partial(_told_apart, means, busy, idle), 90, "the busy task to use more than the idle one")
    assert loads[idle][CPU] >= 0
    assert loads[busy][DISK] > loads[idle][DISK] > 0
    for task_id in (busy, idle):
        shared_host.stop(task_id)


class Means:
    """The mean loads of some tasks over the last measurements in which all of them are known."""

    def __init__(self, host: Supervisor, *task_ids: str) -> None:
        self._host = host
        self._task_ids = task_ids
        self._seen: deque[dict[str, dict[str, float]]] = deque(maxlen=WINDOW)

    def over_a_window(self) -> dict[str, dict[str, float]]:
        """By task and dimension; empty until there are enough measurements."""
        newest = self._host.loads
        if not _unknown(newest, self._task_ids) and (not self._seen or newest is not self._seen[-1]):
            self._seen.append(newest)
        if len(self._seen) < WINDOW:
            return {}
        return {task_id: self._mean(task_id) for task_id in self._task_ids}

    def _mean(self, task_id: str) -> dict[str, float]:
        return {name: mean(loads[task_id][name] for loads in self._seen) for name in ALL}


def _told_apart(means: Means, busy: str, idle: str) -> dict[str, dict[str, float]] | None:
    """The means, once the idle task's start is over, and the busy one uses five times as much and sends its rows."""
    loads = means.over_a_window()
    if not loads or loads[idle][NETWORK] > 0 or loads[idle][CPU] >= 0.1:
        return None
    sends = loads[busy][NETWORK] > 20 * WORD_BYTES
    return loads if sends and loads[busy][CPU] > 5 * loads[idle][CPU] else None


@pytest.mark.long
def test_memory_grows_with_the_keys_of_the_state(
    shared_host: Supervisor, kafka: EmbeddedKafka, shared_folder: Path
) -> None:
    """Tasks of a host share the heap that is not state: what one has more than one without state is its state."""
    topic = make_topic(kafka.bootstrap, 1)
    counts = {"query": {"sql": COUNTS}, "output_mode": "update"}
    output = {"type": "kafka", "topic": make_topic(kafka.bootstrap, 1)}
    keyed = start(shared_host, shared_folder, "keyed", topic, output=output, **counts)
    bare = start(shared_host, shared_folder, "bare", topic)
    state = []
    for keys in (1_000, 20_000):
        produce(kafka.bootstrap, topic, ({"n": n, "word": "w"} for n in range(keys)), 1)
        state.append(wait_until(partial(_state_of, shared_host, keyed, bare, keys), 90, f"{keys} keys to be seen"))
    assert state[1] > 5 * state[0] > 0
    for task_id in (keyed, bare):
        shared_host.stop(task_id)


def _state_of(host: Supervisor, keyed: str, bare: str, keys: int) -> int | None:
    """What the keyed task has more than the bare one, once that is its state with so many keys."""
    loads, progress = known(host, keyed, bare), host.progress.get(keyed)
    more = round(loads[keyed][MEMORY] - loads[bare][MEMORY])
    has_all = progress is not None and (progress.state_rows or 0) >= keys
    return more if has_all and more == progress.state_memory_bytes else None


@pytest.mark.long
def test_an_isolated_task_has_the_memory_of_its_processes_and_no_more(kafka: EmbeddedKafka, tmp_path: Path) -> None:
    """1. What it is seen to use is resident. 2. A row that does not fit ends the host, which says so."""
    resources = {"memory_bytes": 2**30}
    settings = settings_for(
        tmp_path,
        kafka.bootstrap,
        load_interval_seconds=0.5,
        disk_interval_seconds=0.5,
        heap_bytes=heap_for(resources["memory_bytes"]),
    )
    with running_host("isolated", settings, tmp_path) as host:
        topic = make_topic(kafka.bootstrap, 1)
        task_id = start(host, tmp_path, "isolated", topic, isolation="process", resources=resources)
        assert known(host, task_id)[task_id][MEMORY] > 200 * 2**20
        jvm, large = jvm_pid(host), make_topic(kafka.bootstrap, 1)
        produce(kafka.bootstrap, large, [{"n": 1, "word": "x" * 1000}], 1)
        start(host, tmp_path, "large", large, query={"sql": LARGE})
        assert host.exit.result(REPLY_SECONDS) is ExitReason.OUT_OF_MEMORY
        wait_gone(jvm)
