"""Queries that come and go in one host: `python -m tests.bench.hosts_turnover [--queries 2000] [--at 500 1000 2000]`.

Every query has an id of its own, reads the rows of a topic once, commits a batch and is stopped; every other one is
stateful. Eight run at a time. After 40 queries (`at 0`) and after each number of `--at`: heap of the host's JVM after a
collection, metaspace, threads of the JVM and of the host's Python, resident memory of both, files in Spark's local
folder, living objects that Spark makes for each session or pool, and the seconds that a group of eight took lately. A
rest of `--rest 150` seconds comes before each: what Spark keeps for a time after a query has ended is no leak.
All must stay flat. With `--different N` the queries take turns in N statements, of which Spark generates other classes
each; so many queries come before `at 0`.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import psutil

from penstock.config.model import JobConfig
from penstock.control.process import wait_until
from penstock.spark.channel import Stop
from penstock.tasks.spec import TaskSpec
from tests.bench.hosts import HostBench, bench_host, one_group_task
from tests.bench.hosts_stateful import different
from tests.bench.jvm import MOST_COLLECTIONS, JvmState, code_cache_mb, instances, jvm_state
from tests.bench.report import finish, let_pass, say
from tests.support.spark.hosts import REPLY_SECONDS

GROUP, WARM = 8, 40
LISTENERS, SESSIONS, POOLS, PRODUCERS = "StreamingQueryListenerBus", "SparkSession", "Pool", "KafkaProducer"
TWO = (
    "SELECT n, upper(word) AS word FROM rows",
    "SELECT word, count(*) AS c, sum(n) AS s FROM rows GROUP BY word",
)
_PLAIN = {"value_schema": "n BIGINT, word STRING"}
_TIMED = {
    "value_schema": "n BIGINT, word STRING, at TIMESTAMP",
    "event_time_column": "at",
    "watermark_delay": "1 hour",
}


class Sample(NamedTuple):
    """What the host held after so many queries. `group_s`: the median of the groups since the sample before."""

    queries: int
    jvm: JvmState
    python_threads: int
    rss_mb: float
    files: int
    objects: dict[str, int]
    group_s: float
    code_cache_mb: float

    def __str__(self) -> str:
        return (
            f"at {self.queries}: {self.jvm}; code cache {self.code_cache_mb:.0f} MB; "
            f"python {self.python_threads} threads; resident {self.rss_mb:.0f} MB; "
            f"{self.files} scratch files; {self.objects}; a group of {GROUP} takes {self.group_s:.2f} s"
        )


def main() -> None:
    """Prints the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--queries", type=int, default=2000)
    parser.add_argument("--at", type=int, nargs="+", default=[500, 1000, 2000])
    parser.add_argument("--rest", type=float, default=150.0)
    parser.add_argument("--different", type=int, default=0)
    asked = parser.parse_args()
    statements = list(different(asked.different)) or list(TWO)
    with bench_host(1, {}) as bench:
        at = [number for number in asked.at if number <= asked.queries]
        figures = measure(bench, max(WARM, asked.different), at, asked.rest, statements=statements)
    finish(figures)


def measure(
    bench: HostBench,
    warm: int,
    at: Sequence[int],
    rest_s: float,
    group: int = GROUP,
    most_collections: int = MOST_COLLECTIONS,
    statements: Sequence[str] = TWO,
) -> dict[str, float]:
    """Runs `warm` queries, then as many as the last of `at` says, a group at once, which take turns in the statements.
    Before each sample it rests for so long, and collects garbage so often at most.

    Raises RuntimeError when a query does not start.
    """
    _run(bench, -warm, 0, group, statements)
    let_pass(rest_s)
    first = last = _sample(bench, 0, [0.0], most_collections)
    for number in at:
        seconds = _run(bench, last.queries, number, group, statements)
        let_pass(rest_s)
        last = _sample(bench, number, seconds, most_collections)
    return {
        "queries": last.queries,
        "heap_growth_mb": last.jvm.heap_mb - first.jvm.heap_mb,
        "metaspace_growth_mb": last.jvm.metaspace_mb - first.jvm.metaspace_mb,
        "code_cache_growth_mb": last.code_cache_mb - first.code_cache_mb,
        "classes_loaded": last.jvm.classes_loaded - first.jvm.classes_loaded,
        "thread_growth": last.jvm.threads - first.jvm.threads,
        "python_thread_growth": last.python_threads - first.python_threads,
        "rss_growth_mb": last.rss_mb - first.rss_mb,
        "file_growth": last.files - first.files,
        "listener_growth": last.objects[LISTENERS] - first.objects[LISTENERS],
        "session_growth": last.objects[SESSIONS] - first.objects[SESSIONS],
        "producer_growth": last.objects[PRODUCERS] - first.objects[PRODUCERS],
        "pool_growth": last.objects[POOLS] - first.objects[POOLS],
        "group_s": last.group_s,
    }


def _run(bench: HostBench, begin: int, end: int, group: int, statements: Sequence[str]) -> list[float]:
    """Seconds of each group of queries."""
    seconds = []
    for first in range(begin, end, group):
        started = time.perf_counter()
        _run_group(bench, range(first, min(first + group, end)), statements)
        seconds.append(time.perf_counter() - started)
    return seconds


def _run_group(bench: HostBench, numbers: range, statements: Sequence[str]) -> None:
    specs = [_spec(bench.topic, number, statements[number % len(statements)]) for number in numbers]
    _require_ok([bench.host.send_start(spec) for spec in specs])
    commits = [bench.checkpoint(spec) / "commits" / "0" for spec in specs]
    wait_until(lambda: all(map(Path.exists, commits)), REPLY_SECONDS, "the first batch of each query")
    _require_ok([bench.host.host.send(Stop(id=0, task_id=spec.task_id)) for spec in specs])


def _require_ok(answers: Sequence[object]) -> None:
    for answer in answers:
        reply = answer.result(REPLY_SECONDS)  # type: ignore[attr-defined]
        if not reply.ok:
            raise RuntimeError(reply.error)


def _sample(bench: HostBench, queries: int, group_s: list[float], most_collections: int) -> Sample:
    state, python = jvm_state(bench.jvm_pid, most_collections), psutil.Process(bench.host.host.pid)
    resident = python.memory_info().rss + psutil.Process(bench.jvm_pid).memory_info().rss
    files = sum(1 for _ in bench.scratch.rglob("*"))
    objects = instances(bench.jvm_pid, (LISTENERS, SESSIONS, POOLS, PRODUCERS))
    code, seconds = code_cache_mb(bench.jvm_pid), statistics.median(group_s)
    sample = Sample(queries, state, python.num_threads(), resident / 1e6, files, objects, seconds, code)
    say(str(sample))
    return sample


def _spec(topic: str, number: int, sql: str) -> TaskSpec:
    config = JobConfig.model_validate(
        {
            "inputs": {"rows": {"topic": topic, "key_groups": 1, **(_TIMED if "window(" in sql else _PLAIN)}},
            "query": {"sql": sql},
            "output": {"type": "kafka", "topic": f"{topic}-out"},
            "output_mode": "update",
            "trigger_interval_seconds": 1,
        }
    )
    return one_group_task(f"turnover-{number}", 0, config)


if __name__ == "__main__":
    main()
