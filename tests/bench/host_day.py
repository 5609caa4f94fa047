"""A day of one host in half an hour: `python -m tests.bench.host_day [--minutes 30] [--samples 6] [--seed 1]`.

Nine jobs read topics that rows keep coming to: stateless, with state on the heap and in RocksDB, with windows, and one
that a row breaks. One after the other starts, stops, changes its size (copy, redistribution, seal, removal) or crashes.
Then all are stopped, the host rests for `--rest` seconds, as Spark keeps some things for a minute, and is measured:
heap after a collection, metaspace, threads of the JVM and of Python, open files of both, resident memory, cores at
rest. That goes on `--samples` times. All must stay flat: `*_growth` is from the median of the first half to that of the
second half, without the first sample, by which the host was not warm.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import psutil

from tests.bench.hosts import HostBench, bench_host, cpu_seconds
from tests.bench.jvm import MOST_COLLECTIONS, jvm_state
from tests.bench.report import finish, let_pass, say
from tests.support.bench.day import FRAGILE, KINDS, DayJob, Kind, Rows, happen
from tests.support.stack.feeding import feeding

DAY = (*KINDS, *KINDS, FRAGILE)
_PAUSE_S = 0.5


class Sample(NamedTuple):
    """What the host held when nothing ran; `cores`: what it used then."""

    heap_mb: float
    metaspace_mb: float
    threads: int
    python_threads: int
    files: int
    rss_mb: float
    cores: float


def main() -> None:
    """Prints the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--samples", type=int, default=6)
    parser.add_argument("--rest", type=float, default=70.0)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    with bench_host(1, {}) as bench:
        figures = measure(bench, asked.minutes * 60, asked.samples, asked.rest, asked.seed)
    finish(figures)


def measure(
    bench: HostBench,
    seconds: float,
    samples: int,
    rest_s: float,
    seed: int,
    kinds: Sequence[Kind] = DAY,
    rounds: int = 0,
    most_collections: int = MOST_COLLECTIONS,
) -> dict[str, float]:
    """Lets a job of each of `kinds` live for `seconds`, rests included; before each sample at least so many changes
    happen to each. Figures: how often what happened, and how much the host holds more at the end than at first."""
    dice, rows, events = random.Random(seed), Rows(bench.bootstrap), Counter[str]()
    topic = rows.topic()
    jobs = [DayJob(bench.host, rows, kind, rows.topic() if kind is FRAGILE else topic) for kind in kinds]
    taken: list[Sample] = []
    for number in range(samples):
        until = time.monotonic() + max(0.0, seconds / samples - rest_s)
        with feeding("day", lambda: rows.send(topic), _PAUSE_S):
            for job in jobs * rounds:
                events[happen(job, rows, dice)] += 1
            while time.monotonic() < until:
                events[happen(dice.choice(jobs), rows, dice)] += 1
        for job in jobs:
            if job.runs:
                job.stop()
        taken.append(_sample(bench, rest_s, most_collections))
        say(f"{number + 1}/{samples}: {taken[-1]}, {dict(events)}")
    growth = {f"{name}_growth": _growth([getattr(each, name) for each in taken]) for name in Sample._fields}
    return {**dict(events), **growth, "cores": taken[-1].cores}


def _growth(values: Sequence[float]) -> float:
    """A single sample of the heap is up to 15 MB off, as what Spark's cleaner frees by itself comes and goes."""
    warm = values[1:] or values
    half = len(warm) // 2 or 1
    return statistics.median(warm[-half:]) - statistics.median(warm[:half])


def _sample(bench: HostBench, rest_s: float, most_collections: int) -> Sample:
    """What is left at the end of the rest; `cores` are those of the whole rest."""
    processes = [psutil.Process(bench.host.host.pid), psutil.Process(bench.jvm_pid)]
    before, begun = cpu_seconds(processes), time.monotonic()
    let_pass(rest_s)
    cores = (cpu_seconds(processes) - before) / (time.monotonic() - begun)
    state = jvm_state(bench.jvm_pid, most_collections)
    return Sample(
        heap_mb=state.heap_mb,
        metaspace_mb=state.metaspace_mb,
        threads=state.threads,
        python_threads=processes[0].num_threads(),
        files=sum(process.num_fds() for process in processes),
        rss_mb=sum(process.memory_info().rss for process in processes) / 1e6,
        cores=cores,
    )


if __name__ == "__main__":
    main()
