"""Several outputs of one job: after failures between two of them, a rescale and a restore each has its rows once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException

from penstock.local.kafka import EmbeddedKafka
from penstock.spark.sinks.postgres_connections import pool_of
from penstock.spark.task import Runtime
from tests.support.spark.hosts import make_topic
from tests.support.spark.redistribution import KEY_GROUPS, Events, Job, Keys
from tests.support.spark.side_outputs import Places, expected, make_job, windows_of

_FAR_S = 1_000_000


@pytest.fixture
def places(runtime: Runtime, empty_database_url: str, tmp_path: Path) -> Iterator[Places]:
    settings = runtime.settings.model_copy(update={"connections": {"default": empty_database_url}})
    yield Places.make(replace(runtime, settings=settings), empty_database_url, tmp_path)
    pool_of(empty_database_url).close()


@pytest.fixture
def events(runtime: Runtime, kafka: EmbeddedKafka) -> Events:
    return Events(kafka.bootstrap, make_topic(kafka.bootstrap, KEY_GROUPS), Keys(runtime.spark, "spark"))


def rows(events: Events, lo: int, hi: int) -> list[tuple[str, int, float]]:
    names = events.keys.names
    found = [(names[n * 7 % 40], n, n * 0.5) for n in range(lo, hi)]
    events.add(found)
    return found


def run_through_failures(job: Job, index: int) -> int:
    """Runs a task until it does not fail any more; how often it failed."""
    for failures in range(20):
        try:
            job.run([index])
        except StreamingQueryException as error:
            if "ends here" not in str(error):
                raise
        else:
            return failures
    raise AssertionError("it fails for ever")


def test_each_place_has_its_rows_once_when_tasks_end_between_two_outputs(
    places: Places, events: Events, tmp_path: Path
) -> None:
    """1. Each batch of two tasks with state fails when some outputs have it and others do not. 2. It is repeated."""
    job = make_job(places, events, task_count=2, args={"folder": str(tmp_path), "breaks": True})
    given = rows(events, 0, 200)
    assert [run_through_failures(job, index) > 0 for index in range(2)] == [True, True]
    given += rows(events, 200, 400)
    events.add((key, -1, _FAR_S) for key in events.keys.one_of_each_group())
    assert [run_through_failures(job, index) > 0 for index in range(2)] == [True, True]
    assert places.found() == expected(windows_of(given))
