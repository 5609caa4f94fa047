"""Operators x backends x key functions x sizes: what a redistributed job writes is what an unsplit run writes."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise, product
from typing import NamedTuple

import pytest

from penstock.local.kafka import EmbeddedKafka
from penstock.spark.task import Runtime
from tests.support.spark.hosts import make_topic
from tests.support.spark.redistribution import (
    KEY_GROUPS,
    Events,
    Job,
    Keys,
    Row,
    job_config,
    output_topic,
)
from tests.support.spark.spark_hash import key_group

_MODULE = "tests.support.spark.redistribution"


class Operator(NamedTuple):
    """A query, its output mode, and whether only the last row of each key counts."""

    query: dict[str, str]
    mode: str = "append"


def sql(text: str) -> dict[str, str]:
    return {"sql": text}


JOIN_ON = "a.k = b.k AND b.at BETWEEN a.at AND a.at + INTERVAL 4 SECONDS"
OPERATORS = {
    "stateless": Operator(sql("SELECT k, v, v * 2 AS w FROM events")),
    "sum": Operator(sql("SELECT k, count(*) AS c, sum(v) AS s, max(at) AS m FROM events GROUP BY k"), "update"),
    "window": Operator(
        sql(
            "SELECT window.start AS w, k AS who, count(*) AS c, sum(v) AS s FROM events "
            "GROUP BY window(at, '20 seconds'), k"
        )
    ),
    "session": Operator(
        sql(
            "SELECT session_window.start AS w, k, count(*) AS c FROM events GROUP BY session_window(at, '5 seconds'), k"
        )
    ),
    "dedup": Operator({"python": f"{_MODULE}:deduplicated"}),
    "dedup-within": Operator({"python": f"{_MODULE}:deduplicated_within"}),
    "inner": Operator(sql(f"SELECT a.k, a.v, b.v AS bv FROM events a JOIN others b ON {JOIN_ON}")),
    "outer": Operator(sql(f"SELECT a.k, a.v, b.v AS bv FROM events a LEFT JOIN others b ON {JOIN_ON}")),
    "semi": Operator(sql(f"SELECT a.k, a.v, a.at FROM events a LEFT SEMI JOIN others b ON {JOIN_ON}")),
}
JOINS = ("inner", "outer", "semi")


class Case(NamedTuple):
    """`tasks` and `threads` have one number a generation."""

    operator: str
    backend: str
    function: str
    tasks: tuple[int, ...]
    threads: tuple[int, ...]

    def __str__(self) -> str:
        sizes = "-".join(f"{count}x{threads}" for count, threads in zip(self.tasks, self.threads, strict=True))
        return f"{self.operator}-{self.backend}-{self.function}-{sizes}"


# Sums and stateless queries move in `test_engine`, windows in `test_level`. An inner or semi join's stores are those of
# an outer one. A store of `dropDuplicates` has keys alone, as that of a sum has keys and values.
SHORT = [
    Case("session", "heap", "spark", (2, 1), (1, 2)),
]
# 1 -> 2, 2 -> 3, 3 -> 2, 2 -> 5, 4 -> 1, each pair with a second change after it.
CHAINS = {(1, 2, 3): (1, 2, 1), (3, 2, 5): (2, 1, 1), (4, 1, 2): (1, 3, 2)}
ALL = [
    Case(*case, tasks, threads)
    for case in product(OPERATORS, ("heap", "rocksdb"), ("spark", "kafka"))
    for tasks, threads in CHAINS.items()
]


def test_the_matrix_has_every_change_of_size() -> None:
    changes = {pair for tasks in CHAINS for pair in pairwise(tasks)}
    assert changes >= {(1, 2), (2, 3), (3, 2), (4, 1), (2, 5)}


def test_keys_of_the_bench_are_where_spark_would_put_them(runtime: Runtime) -> None:
    keys = Keys(runtime.spark, "spark")
    assert {name: key_group(name, KEY_GROUPS) for name in keys.names} == keys.group_of


@pytest.mark.parametrize("case", [*SHORT, *(pytest.param(case, marks=pytest.mark.long) for case in ALL)], ids=str)
def test_results_are_those_of_an_unsplit_run(runtime: Runtime, kafka: EmbeddedKafka, case: Case) -> None:
    """1. Data, tasks read it. 2. More data, another size, tasks read on. 3. Perhaps the same again; windows close."""
    operator = OPERATORS[case.operator]
    keys = Keys(runtime.spark, case.function)
    names = ["events", "others"] if case.operator in JOINS else ["events"]
    topics = {name: Events(kafka.bootstrap, make_topic(kafka.bootstrap, KEY_GROUPS), keys) for name in names}
    config = job_config(
        {name: events.topic for name, events in topics.items()},
        case.function,
        output_topic(kafka.bootstrap),
        query=operator.query,
        output_mode=operator.mode,
        state_backend=case.backend,
        task_count=case.tasks[0],
        threads_per_task=case.threads[0],
    )
    job = Job(runtime, config)
    for phase, (tasks, threads) in enumerate(zip(case.tasks, case.threads, strict=True)):
        for number, events in enumerate(topics.values()):
            events.add_range(phase * 600 + number, (phase + 1) * 600)
        if phase:
            job.rescale(task_count=tasks, threads_per_task=threads)
        if phase == len(case.tasks) - 1:
            for events in topics.values():
                events.add_far_future()
        job.run()
    assert written(job, operator) == written(job.unsplit(), operator)


def written(job: Job, operator: Operator) -> Counter[Row]:
    return job.last_rows("k") if operator.mode == "update" else job.rows()
