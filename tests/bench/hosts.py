"""Many Kafka queries in one container: `python -m tests.bench.hosts [--queries 100] [--seconds 60]`.

One host (`local[2]`), n tasks that each copy one partition to a Kafka topic at a 10 s trigger, with 20 rows a second a
partition. Figures are of the steady state: CPU of the host, its JVM included, over `--seconds`; resident memory;
the median batch. `warm_start_s`: median from the start command to the task's first committed batch on the host that is
up; `cold_start_s`: the same from the start of a host, which is a driver of one's own.

Other queries than copies: `hosts_stateful`. Queries that come and go: `hosts_turnover`.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import psutil
from confluent_kafka import Producer

from penstock.config.keygroups import KeyGroupRange
from penstock.config.model import JobConfig
from penstock.control import logs
from penstock.control.process import wait_until
from penstock.local.kafka import EmbeddedKafka
from penstock.local.topics import create_topics
from penstock.spark.files import local_path
from penstock.spark.settings import SparkSettings
from penstock.tasks.spec import TaskSpec
from tests.bench.report import finish, let_pass, percentile, say
from tests.support.spark.hosts import Supervisor, running_host, settings_for
from tests.support.spark.session import unique
from tests.support.stack.feeding import feeding

JOB, TRIGGER_S = "copies", 10.0
SETTLE_S = 45.0
ENOUGH_S = 120.0
WARM_STARTS = 9
SINK_PARTITIONS = 8
ROWS_PER_SECOND_AND_PARTITION = 20
WORDS = ("penstock", "turbine", "weir")


@dataclass(frozen=True)
class HostBench:
    """A host that is ready, and a topic of `partitions` partitions with an empty one beside it, `<topic>-out`."""

    host: Supervisor
    bootstrap: str
    settings: SparkSettings
    topic: str
    partitions: int

    @property
    def jvm_pid(self) -> int:
        """The process id of the host's JVM."""
        return self.host.host.ready.result().jvm_pid

    @property
    def scratch(self) -> Path:
        """Where Spark keeps its temporary files."""
        assert self.settings.spark_local_dir is not None
        return self.settings.spark_local_dir

    def checkpoint(self, spec: TaskSpec) -> Path:
        """Where a task's checkpoint is."""
        return Path(local_path(self.settings.checkpoint_root)) / spec.job / f"g{spec.generation}" / f"task-{spec.index}"

    def send_rows(self) -> None:
        """Writes what comes in a second."""
        producer = Producer({"bootstrap.servers": self.bootstrap, "linger.ms": 100})
        now = datetime.now(UTC).isoformat()
        for number in range(ROWS_PER_SECOND_AND_PARTITION):
            row = json.dumps({"n": number, "word": WORDS[number % len(WORDS)], "at": now})
            for partition in range(self.partitions):
                producer.produce(self.topic, value=row, partition=partition)
        producer.flush(10)

    def steady(self, seconds: float, enough: Callable[[], bool] = lambda: True) -> dict[str, float]:
        """`cores` that the host uses from now on for so long and until `enough`; `steady_s`; `rss_mb` at the end."""
        family = [psutil.Process(self.host.host.pid), *psutil.Process(self.host.host.pid).children(recursive=True)]
        before, began = cpu_seconds(family), time.perf_counter()
        let_pass(seconds)
        wait_until(enough, ENOUGH_S, "enough batches to measure")
        passed = time.perf_counter() - began
        cores = (cpu_seconds(family) - before) / passed
        rss_mb = sum(process.memory_info().rss for process in family) / 1e6
        return {"steady_s": passed, "cores": cores, "rss_mb": rss_mb}

    def batch_p50_ms(self) -> float:
        """The median of the last batch of each task; prints the slower ones, too."""
        batches = [p.batch_seconds for p in self.host.progress.values() if p.batch_seconds is not None]
        say(f"batches: p50 {1000 * percentile(batches, 0.5):.0f} ms, p95 {1000 * percentile(batches, 0.95):.0f} ms")
        return 1000 * percentile(batches, 0.5)

    def require_none_ended(self) -> None:
        """Raises RuntimeError when a task has ended by itself."""
        if not self.host.ended.empty():
            ended = self.host.ended.get()
            raise RuntimeError(f"{ended.task_id} ended: {ended.error}")


def main() -> None:
    """Prints the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--queries", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=60.0)
    asked = parser.parse_args()
    started = time.perf_counter()
    with bench_host(asked.queries, {}) as bench:
        figures = measure(bench, asked.seconds, SETTLE_S, TRIGGER_S, started)
    finish(figures)


@contextmanager
def bench_host(partitions: int, conf: Mapping[str, str]) -> Iterator[HostBench]:
    """A broker and a host of 2 GiB with further Spark settings `conf`, as compiled as in production."""
    logs.configure("bench", level="ERROR")
    folder = Path(tempfile.mkdtemp(prefix="penstock-bench-"))
    try:
        with EmbeddedKafka(folder / "kafka") as kafka:
            settings = settings_for(folder, kafka.bootstrap, heap_bytes=2 * 2**30, progress_interval_seconds=1.0)
            settings = settings.model_copy(update={"spark_conf": dict(conf)})
            with running_host("bench", settings, folder) as host:
                yield bench_on(host, kafka.bootstrap, settings, partitions)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def bench_on(host: Supervisor, bootstrap: str, settings: SparkSettings, partitions: int) -> HostBench:
    """Makes the topics; a second's rows are in the first."""
    topic = unique("bench")
    create_topics(bootstrap, {topic: partitions, f"{topic}-out": SINK_PARTITIONS})
    bench = HostBench(host, bootstrap, settings, topic, partitions)
    bench.send_rows()
    return bench


def measure(bench: HostBench, seconds: float, settle_s: float, trigger_s: float, started: float) -> dict[str, float]:
    """Starts a task for each partition. `started` is when the host was: `time.perf_counter()`."""
    specs = [_spec(bench, index, trigger_s) for index in range(bench.partitions)]
    with feeding(JOB, bench.send_rows, 1.0):
        _timed_start(bench, specs[0])
        cold = time.perf_counter() - started
        warm = [_timed_start(bench, spec) for spec in specs[1 : WARM_STARTS + 1]]
        for spec in specs[WARM_STARTS + 1 :]:
            bench.host.send_start(spec)
        wait_until(lambda: _progressing(bench), 300, "all queries to make progress")
        let_pass(settle_s)
        steady = bench.steady(seconds)
        batch_p50_ms = bench.batch_p50_ms()
    return {
        "queries": len(specs),
        **steady,
        "batch_p50_ms": batch_p50_ms,
        "warm_start_s": statistics.median(warm),
        "cold_start_s": cold,
    }


def _progressing(bench: HostBench) -> bool:
    bench.require_none_ended()
    return sum(task.startswith(f"{JOB}/") for task in bench.host.progress) == bench.partitions


def cpu_seconds(processes: list[psutil.Process]) -> float:
    """What processes have used so far, without their children."""
    return sum(times.user + times.system for times in (process.cpu_times() for process in processes))


def _timed_start(bench: HostBench, spec: TaskSpec) -> float:
    """Starts a task; seconds until its first commit."""
    started = time.perf_counter()
    reply = bench.host.start(spec)
    if not reply.ok:
        raise RuntimeError(reply.error)
    first = bench.checkpoint(spec) / "commits" / "0"
    wait_until(first.exists, 60, f"the first batch of {spec.task_id}", poll_s=0.005)
    return time.perf_counter() - started


def _spec(bench: HostBench, index: int, trigger_s: float) -> TaskSpec:
    source = {"topic": bench.topic, "key_groups": bench.partitions, "value_schema": "n BIGINT, word STRING"}
    config = JobConfig.model_validate(
        {
            "inputs": {"rows": source},
            "query": {"sql": "SELECT n, upper(word) AS word FROM rows WHERE n IS NOT NULL"},
            "output": {"type": "kafka", "topic": f"{bench.topic}-out"},
            "task_count": bench.partitions,
            "max_task_count": bench.partitions,
            "trigger_interval_seconds": trigger_s,
        }
    )
    return one_group_task(JOB, index, config)


def one_group_task(job: str, index: int, config: JobConfig) -> TaskSpec:
    """The task that reads the key group of its own number."""
    groups = KeyGroupRange(index, index + 1)
    return TaskSpec(job=job, index=index, revision=1, generation=1, restarts=0, key_groups=groups, config=config)


if __name__ == "__main__":
    main()
