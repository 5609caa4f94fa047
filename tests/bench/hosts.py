"""Many Kafka queries in one container: `python -m tests.bench.hosts [--queries 100] [--seconds 60]`.

One host (`local[2]`), n tasks that each copy one partition to a Kafka topic at a 10 s trigger, with 20 rows a second a
partition. Figures are of the steady state: CPU of the host, its JVM included, over `--seconds`; resident memory;
the median batch. `warm_start_s`: median from the start command to the task's first committed batch on the host that is
up; `cold_start_s`: the same from the start of a host, which is a driver of one's own.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import tempfile
import threading
import time
from pathlib import Path

import psutil
from confluent_kafka import Producer

from penstock.config.model import JobConfig
from penstock.control.process import wait_until
from penstock.local.kafka import EmbeddedKafka
from penstock.local.topics import create_topics
from penstock.spark.checkpoint import local_path
from penstock.tasks.keygroups import KeyGroupRange
from penstock.tasks.spec import TaskSpec
from tests.bench.report import finish, percentile, say
from tests.support.spark import Supervisor, running_host, settings_for

SOURCE, SINK = "bench-in", "bench-out"
SETTLE_S = 45.0
WARM_STARTS = 9
ROWS_PER_SECOND_AND_PARTITION = 20


def main() -> None:
    """Prints the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queries", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=60.0)
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="penstock-bench-"))
    try:
        with EmbeddedKafka(folder / "kafka") as kafka:
            create_topics(kafka.bootstrap, {SOURCE: arguments.queries, SINK: 8})
            finish(_measure(folder, kafka.bootstrap, arguments.queries, arguments.seconds))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _measure(folder: Path, bootstrap: str, queries: int, seconds: float) -> dict[str, float]:
    settings = settings_for(folder, bootstrap, heap_bytes=2 * 2**30, progress_interval_seconds=1.0).model_copy(
        update={"spark_conf": {}}
    )
    stop = threading.Event()
    feeder = threading.Thread(target=_feed, args=(bootstrap, queries, stop), daemon=True)
    feeder.start()
    started = time.perf_counter()
    with running_host("bench", settings, folder) as host:
        _start(host, folder, 0, queries)
        cold = time.perf_counter() - started
        warm = [_timed_start(host, folder, index, queries) for index in range(1, WARM_STARTS + 1)]
        for index in range(WARM_STARTS + 1, queries):
            host.send_start(_spec(index, queries))
        wait_until(lambda: len(host.progress) == queries, 300, "all queries to make progress")
        figures = _steady(host, seconds)
    stop.set()
    feeder.join()
    return {"queries": queries, **figures, "warm_start_s": statistics.median(warm), "cold_start_s": cold}


def _steady(host: Supervisor, seconds: float) -> dict[str, float]:
    family = [psutil.Process(host.host.pid), *psutil.Process(host.host.pid).children(recursive=True)]
    threading.Event().wait(SETTLE_S)
    before, began = _cpu_seconds(family), time.perf_counter()
    threading.Event().wait(seconds)
    cores = (_cpu_seconds(family) - before) / (time.perf_counter() - began)
    batches = [p.batch_seconds for p in host.progress.values() if p.batch_seconds is not None]
    say(f"batches: p50 {1000 * percentile(batches, 0.5):.0f} ms, p95 {1000 * percentile(batches, 0.95):.0f} ms")
    rss = sum(process.memory_info().rss for process in family)
    return {"cores": cores, "rss_mb": rss / 1e6, "batch_p50_ms": 1000 * percentile(batches, 0.5)}


def _cpu_seconds(processes: list[psutil.Process]) -> float:
    return sum(times.user + times.system for times in (process.cpu_times() for process in processes))


def _timed_start(host: Supervisor, folder: Path, index: int, queries: int) -> float:
    started = time.perf_counter()
    _start(host, folder, index, queries)
    return time.perf_counter() - started


def _start(host: Supervisor, folder: Path, index: int, queries: int) -> None:
    """Starts a task and waits for its first commit."""
    reply = host.start(_spec(index, queries))
    if not reply.ok:
        raise RuntimeError(reply.error)
    first = Path(local_path(str(folder / "checkpoints"))) / "bench" / "g1" / f"task-{index}" / "commits" / "0"
    wait_until(first.exists, 60, f"the first batch of task {index}", poll_s=0.005)


def _spec(index: int, queries: int) -> TaskSpec:
    config = JobConfig.model_validate(
        {
            "inputs": {"rows": {"topic": SOURCE, "key_groups": queries, "value_schema": "n BIGINT, word STRING"}},
            "query": {"sql": "SELECT n, upper(word) AS word FROM rows WHERE n IS NOT NULL"},
            "output": {"type": "kafka", "topic": SINK},
            "task_count": queries,
            "max_task_count": queries,
            "trigger_interval_seconds": 10,
        }
    )
    return TaskSpec(
        job="bench",
        index=index,
        revision=1,
        generation=1,
        restarts=0,
        key_groups=KeyGroupRange(index, index + 1),
        config=config,
    )


def _feed(bootstrap: str, partitions: int, stop: threading.Event) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 100})
    number = 0
    while not stop.wait(1.0):
        for partition in range(partitions):
            for _ in range(ROWS_PER_SECOND_AND_PARTITION):
                producer.produce(SOURCE, value=json.dumps({"n": number, "word": "penstock"}), partition=partition)
                number += 1
        producer.flush(10)


if __name__ == "__main__":
    main()
