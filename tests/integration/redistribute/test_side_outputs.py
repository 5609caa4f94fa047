"""Several outputs of one job: after failures between two of them, a rescale and a restore each has its rows once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest
from pyspark.errors import StreamingQueryException

from penstock.config.model import FilesOutput
from penstock.control.errors import BrokenTask
from penstock.local.kafka import EmbeddedKafka
from penstock.spark.host.exits import ExitReason
from penstock.spark.redistribute.engine import redistribute
from penstock.spark.redistribute.positions import task_specs
from penstock.spark.savepoint.take import take
from penstock.spark.sinks.files import read_all
from penstock.spark.sinks.postgres_connections import pool_of
from penstock.spark.task import Runtime
from penstock.tasks.redistribution import RedistributionRequest, SavepointName
from penstock.tasks.savepoint import SavepointRequest
from tests.support.spark.hosts import make_topic, quick_start, running_host
from tests.support.spark.redistribution import KEY_GROUPS, Events, Job, Keys
from tests.support.spark.session import forget_last_commit
from tests.support.spark.side_outputs import Places, expected, make_job, pack_ends_of_hosts, windows_of

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


def close_all(events: Events) -> None:
    events.add((key, -1, _FAR_S) for key in events.keys.one_of_each_group())


@pytest.mark.parametrize("tasks", [1, pytest.param(2, marks=pytest.mark.long)])
def test_each_place_has_its_rows_once_when_tasks_end_between_two_outputs(
    places: Places, events: Events, tmp_path: Path, tasks: int
) -> None:
    """1. Each batch of tasks with state fails when some outputs have it and others do not. 2. It is repeated."""
    job = make_job(places, events, task_count=tasks, args={"folder": str(tmp_path), "breaks": True})
    given: list[tuple[str, int, float]] = []
    for _ in range(tasks):
        given += rows(events, len(given), len(given) + 200)
        if len(given) == 200 * tasks:
            close_all(events)
        assert all(run_through_failures(job, index) > 0 for index in range(tasks))
    assert places.found() == expected(windows_of(given))


@pytest.mark.long
@pytest.mark.parametrize("kills", [1, 3])
def test_each_place_has_its_rows_once_when_hosts_are_killed_between_two_outputs(
    places: Places, events: Events, tmp_path: Path, kills: int
) -> None:
    """1. A host runs two tasks with state; a function that is their second output kills it. So do the next hosts, if it
    kills several. 2. The tasks come to the end."""
    packed = pack_ends_of_hosts(tmp_path, kills)
    settings = places.runtime.settings.model_copy(update={"packages_root": tmp_path / "packages"})
    places = replace(places, runtime=replace(places.runtime, settings=settings))
    given = rows(events, 0, 120)
    job = make_job(places, events, task_count=2, **packed)
    own = {"spark_local_dir": tmp_path / "spark", "heap_bytes": 600 * 2**20, "spark_conf": quick_start()}
    for kill in range(kills):
        with running_host(f"host-{kill}", settings.model_copy(update=own), tmp_path) as host:
            for spec in task_specs(job.name, job.layout):
                host.send_start(spec)
            assert host.exit.result(120) is ExitReason.KILLED
        assert len(list(tmp_path.glob("ended-*"))) == kill + 1
    close_all(events)
    job.run()
    assert places.found() == expected(windows_of(given))


@pytest.mark.long
def test_each_place_has_its_rows_once_after_rescales(places: Places, events: Events, tmp_path: Path) -> None:
    """1. Two tasks; one has a batch that it has not committed. 2. Three. 3. One, whose batches fail between outputs."""
    job = make_job(places, events, task_count=2, args={"folder": str(tmp_path)})
    given = rows(events, 0, 200)
    job.run()
    for size in (3, 1):
        forget_last_commit(job.checkpoint(0))
        assert job.rescale(task_count=size).settled == 1
        given += rows(events, len(given), len(given) + 200)
        if size > 1:
            job.run()
    job.config = job.config.model_copy(update={"args": {"folder": str(tmp_path), "breaks": True}})
    close_all(events)
    assert run_through_failures(job, 0) > 0
    assert places.found() == expected(windows_of(given))


@pytest.mark.long
def test_files_beside_other_places_have_their_rows_once(places: Places, events: Events, tmp_path: Path) -> None:
    """1. Batches of two tasks fail between two outputs. 2. One task has a batch that it has not committed: a rescale
    ends it, and three tasks go on. 3. What a reader has that goes by Spark's logs is exact, and so are the others."""
    job = make_job(places, events, task_count=2, args={"folder": str(tmp_path), "breaks": True})
    output = FilesOutput(path=str(tmp_path / "files"))
    job.config = job.config.model_copy(update={"output": output})
    given = rows(events, 0, 200)
    assert all(run_through_failures(job, index) > 0 for index in range(2))
    forget_last_commit(job.checkpoint(0))
    assert job.rescale(task_count=3).settled == 1
    given += rows(events, 200, 400)
    close_all(events)
    for index in range(3):
        run_through_failures(job, index)
    whole = expected(windows_of(given))
    found = read_all(places.runtime.spark, output.path).select("k", "c").collect()
    assert Counter(map(tuple, found)) == whole["main"]
    assert (places.few(), places.late(), places.topic(places.part)) == (whole["few"], whole["late"], whole["part"])


@pytest.mark.long
def test_a_clone_of_a_savepoint_has_what_comes_after_it(
    places: Places, events: Events, empty_database_url: str, tmp_path: Path
) -> None:
    """The clone, of another size, goes on with the state into places of its own."""
    job = make_job(places, events, task_count=2, args={"folder": str(tmp_path)})
    given = rows(events, 0, 200)
    job.run()
    before = places.found()
    take(places.runtime, SavepointRequest(job=job.name, name="first", number=1, layout=job.layout))
    given += rows(events, 200, 400)
    close_all(events)
    (tmp_path / "clone").mkdir()
    others = Places.make(places.runtime, empty_database_url, tmp_path / "clone")
    clone = make_job(others, events, task_count=3, args={"folder": str(tmp_path)})
    source = job.layout.model_copy(update={"savepoint": SavepointName(job=job.name, name="first")})
    redistribute(places.runtime, RedistributionRequest(job=clone.name, source=source, target=clone.layout))
    clone.run()
    whole = expected(windows_of(given))
    assert others.found() == {name: whole[name] - before[name] for name in whole}
    job.run()
    assert places.found() == whole


@pytest.mark.long
def test_the_pending_batch_is_of_the_side_outputs_that_it_began_with(
    places: Places, events: Events, tmp_path: Path
) -> None:
    """1. A batch is pending when one side output goes and another comes. 2. The one that goes has it; the one that
    comes begins with the next batch. 3. The first one comes back, with all that follows. `output` has all."""
    args = {"folder": str(tmp_path)}
    job = make_job(places, events, ["few"], task_count=2, args=args)
    few, late = (make_job(places, events, [name]).config.side_outputs for name in ("few", "late"))
    given = rows(events, 0, 200)
    job.run()
    first = places.topic(places.main)
    forget_last_commit(job.checkpoint(0))
    assert job.rescale(side_outputs=late).settled == 1
    given += rows(events, 200, 400)
    job.run()
    second = places.topic(places.main) - first
    assert places.late() == Counter({(key, count * 2): times for (key, count), times in second.items()})
    forget_last_commit(job.checkpoint(1))
    assert job.rescale(side_outputs=few).settled == 1
    close_all(events)
    job.run()
    whole = expected(windows_of(given))
    assert places.topic(places.main) == whole["main"]
    assert places.late() == Counter({(key, count * 2): times for (key, count), times in second.items()})
    assert places.few() == Counter({row: times for row, times in (whole["main"] - second).items() if row[1] > 1})


@pytest.mark.long
def test_a_job_gets_its_first_side_output_and_loses_its_last(places: Places, events: Events, tmp_path: Path) -> None:
    """The sink of `output` is the query's own, then one of several, then the query's own again."""
    job = make_job(places, events, [], task_count=2, args={"folder": str(tmp_path)})
    given = rows(events, 0, 200)
    job.run()
    first = places.topic(places.main)
    forget_last_commit(job.checkpoint(1))
    assert job.rescale(side_outputs=make_job(places, events, ["part"]).config.side_outputs).settled == 1
    given += rows(events, 200, 400)
    job.run()
    second = places.topic(places.main) - first
    forget_last_commit(job.checkpoint(0))
    assert job.rescale(side_outputs={}).settled == 1
    close_all(events)
    job.run()
    assert places.topic(places.main) == expected(windows_of(given))["main"]
    assert places.topic(places.part) == Counter({row: times for row, times in second.items() if row[0] < "k3"})


@pytest.mark.long
def test_a_side_output_that_fails_can_be_removed(places: Places, events: Events, tmp_path: Path) -> None:
    """1. A batch is pending, and one of the outputs takes nothing any more. 2. A rescale that keeps it is refused.
    3. One that removes it ends the batch in the others, once."""
    job = make_job(places, events, task_count=2, args={"folder": str(tmp_path)})
    given = rows(events, 0, 200)
    job.run()
    forget_last_commit(job.checkpoint(0))
    with psycopg.connect(places.url) as connection:
        connection.execute(f"ALTER TABLE {places.table} RENAME COLUMN doubled TO other".encode())
    with pytest.raises(BrokenTask, match=r"side_outputs\.late\.output"):
        job.rescale(task_count=3)
    staying = {name: side for name, side in job.config.side_outputs.items() if name != "late"}
    job.config = job.config.model_copy(update={"task_count": 2})
    assert job.rescale(side_outputs=staying, task_count=3).settled == 1
    given += rows(events, 200, 400)
    close_all(events)
    job.run()
    whole = expected(windows_of(given))
    assert (places.topic(places.main), places.few(), places.topic(places.part)) == (
        whole["main"],
        whole["few"],
        whole["part"],
    )
