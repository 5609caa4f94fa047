"""Key-group ranges that are not even: from and to them, with keyed state, while data arrive."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any, NamedTuple

import pytest

from penstock.local.kafka import EmbeddedKafka
from penstock.spark.task import Runtime
from tests.support.spark.hosts import make_topic
from tests.support.spark.redistribution import KEY_GROUPS, Events, Job, Keys, Row, job_config, output_topic

SUM = "SELECT k, count(*) AS c, sum(v) AS s, max(at) AS m FROM events GROUP BY k"
WINDOW = (
    "SELECT window.start AS w, k AS who, count(*) AS c, sum(v) AS s FROM events GROUP BY window(at, '20 seconds'), k"
)
JOIN = (
    "SELECT a.k, a.v, b.v AS bv FROM events a LEFT JOIN others b "
    "ON a.k = b.k AND b.at BETWEEN a.at AND a.at + INTERVAL 4 SECONDS"
)


class Case(NamedTuple):
    """`sizes`: a generation each, its number of tasks and its bounds."""

    query: str
    backend: str
    function: str
    sizes: tuple[tuple[int, tuple[int, ...] | None], ...]


CASES = {
    "sum, spark keys: even to uneven": Case(SUM, "rocksdb", "spark", ((2, None), (3, (1, 5)))),
    "sum, spark keys: uneven to even": Case(SUM, "rocksdb", "spark", ((3, (1, 5)), (2, None))),
    "window, kafka keys: uneven, other bounds": Case(WINDOW, "heap", "kafka", ((3, (1, 2)), (3, (3, 5)))),
    "outer join, spark keys: uneven to even": Case(JOIN, "heap", "spark", ((2, (5,)), (2, None))),
}


@pytest.mark.long
@pytest.mark.parametrize("case", [pytest.param(case, id=name) for name, case in CASES.items()])
def test_results_are_those_of_an_unsplit_run(runtime: Runtime, kafka: EmbeddedKafka, case: Case) -> None:
    """1. Data, tasks read it. 2. More data, other ranges, tasks read on from there. 3. Windows close."""
    keys = Keys(runtime.spark, case.function)
    names = ["events", "others"] if case.query == JOIN else ["events"]
    topics = {name: Events(kafka.bootstrap, make_topic(kafka.bootstrap, KEY_GROUPS), keys) for name in names}
    job = make_job(runtime, case, topics)
    for phase, (tasks, bounds) in enumerate(case.sizes):
        for number, events in enumerate(topics.values()):
            events.add_range(phase * 300 + number, (phase + 1) * 300)
        if phase:
            job.rescale(task_count=tasks, key_group_bounds=bounds)
        if phase == len(case.sizes) - 1:
            for events in topics.values():
                events.add_far_future()
        job.run()
        assert begins(job) == ([0, *bounds] if bounds else [0, 3]), "the checkpoints have what the bounds say"
    assert written(job, case) == written(job.unsplit(), case)


def make_job(runtime: Runtime, case: Case, topics: dict[str, Events]) -> Job:
    (tasks, bounds), *_ = case.sizes
    more: dict[str, Any] = {
        "query": {"sql": case.query},
        "output_mode": "update" if case.query == SUM else "append",
        "state_backend": case.backend,
        "task_count": tasks,
        "key_group_bounds": bounds,
    }
    inputs = {name: events.topic for name, events in topics.items()}
    return Job(runtime, job_config(inputs, case.function, output_topic(runtime.settings.kafka_bootstrap), **more))


def begins(job: Job) -> list[int]:
    """The first key group of each task, by what its checkpoint has read."""
    return [min(groups) for groups in (_groups(job, index) for index in range(job.config.task_count))]


def _groups(job: Job, index: int) -> list[int]:
    entries = [path for path in (job.checkpoint(index) / "offsets").iterdir() if path.name.isdigit()]
    newest = max(entries, key=lambda path: int(path.name)).read_text().splitlines()
    (partitions,) = json.loads(newest[-1]).values()
    groups = sorted(map(int, partitions))
    assert groups == list(range(groups[0], groups[-1] + 1))
    return groups


def written(job: Job, case: Case) -> Counter[Row]:
    return job.last_rows("k") if case.query == SUM else job.rows()
