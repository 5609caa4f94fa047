"""Many different stateful queries in one host: `python -m tests.bench.hosts_stateful [--queries 100] [--seconds 60]`.

Each query has SQL of its own, so Spark generates and compiles other classes for each. Spark keeps the classes of 100
pieces of code in a driver (`spark.sql.codegen.cache.maxEntries`). It compiles what fell out of that cache again with
each batch. `--code-cache N` sets the limit; without it the product's setting holds.

One host (`local[2]`) has a task of one partition for each query, 20 rows a second a partition, and a 10 s trigger.
Figures are of the steady state over `--seconds`: `cores` and `rss_mb` of the host with its JVM, the median batch,
`classes_per_batch` that were loaded, `jit_share` (seconds of JIT compilation by seconds of CPU), and at the end
`metaspace_mb` and `heap_mb`.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from itertools import product

from penstock.config.model import JobConfig
from penstock.control.process import wait_until
from penstock.tasks.spec import TaskSpec
from tests.bench.hosts import SETTLE_S, TRIGGER_S, HostBench, bench_host, one_group_task
from tests.bench.jvm import jvm_state
from tests.bench.report import finish, let_pass, say
from tests.support.stack.feeding import feeding

JOB = "stateful"
CODE_CACHE = "spark.sql.codegen.cache.maxEntries"
_START_S = 600.0
_SHAPES = (
    "SELECT word, {columns} FROM rows GROUP BY word",
    "SELECT window.start AS at, word, {columns} FROM rows GROUP BY window(at, '{number} minutes'), word",
    "SELECT DISTINCT word, n % {number} AS part, upper(word) AS loud FROM rows",
    "SELECT n % {number} AS part, {columns} FROM rows WHERE n % {number} > 0 GROUP BY n % {number}",
)
_COLUMNS = (
    "count(*) + {number} AS rows",
    "sum(n + {number}) AS total",
    "max(n * {number}) AS most",
    "avg(n % {number}) AS mean",
)


def main() -> None:
    """Prints the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--queries", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--code-cache", type=int)
    asked = parser.parse_args()
    conf = {} if asked.code_cache is None else {CODE_CACHE: str(asked.code_cache)}
    with bench_host(asked.queries, conf) as bench:
        figures = measure(bench, asked.queries, asked.seconds, SETTLE_S)
    finish(figures)


def measure(
    bench: HostBench, queries: int, seconds: float, settle_s: float, trigger_s: float = TRIGGER_S
) -> dict[str, float]:
    """Starts the queries, waits until each has committed a batch and `settle_s` more, and measures for `seconds`."""
    statements = list(different(queries))
    with feeding(JOB, bench.send_rows, 1.0):
        specs = [_spec(bench.topic, index, queries, sql, trigger_s) for index, sql in enumerate(statements)]
        for start in [bench.host.send_start(spec) for spec in specs]:
            if not (reply := start.result(_START_S)).ok:
                raise RuntimeError(reply.error)
        wait_until(lambda: _counting(bench, queries), _START_S, "all queries to make progress")
        let_pass(settle_s)
        before, counted = jvm_state(bench.jvm_pid, most_collections=0), _batches(bench)
        steady = bench.steady(seconds, lambda: _batches(bench) > counted)
        after, batches = jvm_state(bench.jvm_pid, most_collections=1), _batches(bench) - counted
    say(f"{len(set(statements))} different queries, {batches} batches: {after}")
    return {
        "queries": queries,
        "batches": batches,
        **steady,
        "batch_p50_ms": bench.batch_p50_ms(),
        "classes_per_batch": (after.classes_loaded - before.classes_loaded) / batches,
        "jit_share": (after.jit_s - before.jit_s) / (steady["cores"] * steady["steady_s"]),
        "metaspace_mb": after.metaspace_mb,
        "heap_mb": after.heap_mb,
    }


def different(count: int) -> Iterator[str]:
    """SQL statements that differ in what Spark generates for them."""
    numbers = range(2, 2 + count)
    for number, (width, shape) in zip(numbers, _endless(product(range(1, len(_COLUMNS) + 1), _SHAPES)), strict=False):
        yield shape.format(columns=", ".join(_COLUMNS[:width]), number="{number}").format(number=number)


def _endless(values: product[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    kept = list(values)
    while True:
        yield from kept


def _counting(bench: HostBench, queries: int) -> bool:
    """Whether every query has had a batch of rows. Raises RuntimeError when one has ended."""
    bench.require_none_ended()
    progress = [bench.host.progress.get(f"{JOB}-{index}/0") for index in range(queries)]
    return all(p is not None and p.batch_id is not None for p in progress)


def _batches(bench: HostBench) -> int:
    return sum((p.batch_id or 0) + 1 for task, p in bench.host.progress.items() if task.startswith(f"{JOB}-"))


def _spec(topic: str, index: int, queries: int, sql: str, trigger_s: float) -> TaskSpec:
    config = JobConfig.model_validate(
        {
            "inputs": {
                "rows": {
                    "topic": topic,
                    "key_groups": queries,
                    "value_schema": "n BIGINT, word STRING, at TIMESTAMP",
                    "event_time_column": "at",
                    "watermark_delay": "1 hour",
                }
            },
            "query": {"sql": sql},
            "output": {"type": "kafka", "topic": f"{topic}-out"},
            "output_mode": "update",
            "trigger_interval_seconds": trigger_s,
        }
    )
    return one_group_task(JOB, index, config).model_copy(update={"job": f"{JOB}-{index}", "index": 0})


if __name__ == "__main__":
    main()
