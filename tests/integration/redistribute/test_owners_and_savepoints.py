"""Kinds of sources and sinks: an old owner of a task that goes on after it was replaced, and a savepoint from which
another job begins. Rows are there once; with a function, once for each batch. All: `spark/EXACT.md`."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import psycopg
import pytest

from penstock.local.kafka import EmbeddedKafka
from penstock.spark.packages import pack
from penstock.spark.redistribute.engine import redistribute
from penstock.spark.redistribute.positions import task_specs
from penstock.spark.savepoint.take import take
from penstock.spark.sinks.files import read_all
from penstock.spark.sinks.postgres_connections import pool_of
from penstock.spark.task import Runtime
from penstock.tasks.redistribution import RedistributionRequest, SavepointName
from penstock.tasks.savepoint import SavepointRequest
from tests.integration.redistribute.test_clusters import Feeds
from tests.integration.redistribute.test_topic_patterns import Family
from tests.support.spark.hosts import quick_start, running_host
from tests.support.spark.redistribution import Events, Job, Keys, job_config, output_topic
from tests.support.spark.session import unique
from tests.support.spark.side_outputs import Places, expected, make_job, windows_of

SMALL = {"task_count": 2, "max_records_per_trigger": 100}
KEEPS = """
import json, uuid
from pathlib import Path

def keep(frame, batch_id, series, args):
    rows = sorted(row.v for row in frame.collect())
    call = f"{series.replace('/', '-')}.{batch_id}.{uuid.uuid4().hex}"
    made = Path(args["folder"]) / f".{call}"
    made.write_text(json.dumps(rows))
    made.rename(made.with_name(call))
"""


@dataclass
class Story:
    """A job, what adds rows `lo` to `hi`, what closes its windows, and its rows as they are and as they should be."""

    job: Job
    add: Callable[[int, int], object]
    close: Callable[[], object]
    written: Callable[[], Any]
    expected: Callable[[], Any]
    changes: dict[str, Any] = field(default_factory=dict)
    """What another job of this configuration needs of its own."""


@pytest.fixture
def pattern(runtime: Runtime, kafka: EmbeddedKafka, keys: Keys) -> Story:
    family = Family(kafka, keys, "a", "b")
    job = Job(runtime, family.config(output_topic(kafka.bootstrap), "1 hour", **SMALL))
    return Story(job, family.add, family.close, lambda: family.written(job), family.expected)


@pytest.fixture
def clusters(both: Runtime, kafka: EmbeddedKafka, eu: EmbeddedKafka, keys: Keys) -> Story:
    feeds = Feeds(kafka, eu, keys)
    return Story(Job(both, feeds.config(**SMALL)), feeds.add, feeds.close, feeds.written, feeds.expected)


@pytest.fixture
def sides(runtime: Runtime, events: Events, empty_database_url: str, tmp_path: Path) -> Iterator[Story]:
    settings = runtime.settings.model_copy(update={"connections": {"default": empty_database_url}})
    places = Places.make(replace(runtime, settings=settings), empty_database_url, tmp_path)
    job, given = make_job(places, events, ("few", "late", "part"), **SMALL), list[tuple[str, int, float]]()

    def add(lo: int, hi: int) -> None:
        rows = [(events.keys.names[n * 7 % 40], n, n * 0.5) for n in range(lo, hi)]
        events.add(rows)
        given.extend(rows)

    yield Story(job, add, events.add_far_future, places.found, lambda: expected(windows_of(given)))
    pool_of(empty_database_url).close()


@dataclass
class Copies:
    """A job that copies the values of its input, and those that were added."""

    runtime: Runtime
    events: Events
    added: Counter[int] = field(default_factory=Counter)

    def story(self, output: dict[str, Any], found: Callable[[], Counter[int]], **more: Any) -> Story:
        query = {"sql": "SELECT k, v FROM events"}
        config = job_config({"events": self.events.topic}, "spark", output, query=query, **SMALL, **more)
        return Story(Job(self.runtime, config), self.add, list, found, lambda: self.added)

    def add(self, lo: int, hi: int) -> None:
        self.events.add((self.events.keys.names[n % 60], n, 0) for n in range(lo, hi))
        self.added.update(range(lo, hi))


@pytest.fixture
def delta(runtime: Runtime, events: Events, tmp_path: Path) -> Story:
    path = str(tmp_path / "table")
    output = {"type": "delta", "path": path, "allow_other_writers": True}

    def found() -> Counter[int]:
        return Counter(row.v for row in runtime.spark.read.format("delta").load(path).collect())

    return Copies(runtime, events).story(output, found)


@pytest.fixture
def files(runtime: Runtime, events: Events, tmp_path: Path) -> Story:
    """Another job has a folder of its own."""
    paths = [str(tmp_path / "one"), str(tmp_path / "two")]

    def found() -> Counter[int]:
        there = [path for path in paths if Path(path).exists()]
        return Counter(row.v for path in there for row in read_all(runtime.spark, path).collect())

    story = Copies(runtime, events).story({"type": "files", "path": paths[0]}, found)
    story.changes["output"] = story.job.config.output.model_copy(update={"path": paths[1]})
    return story


@pytest.fixture
def postgres(runtime: Runtime, events: Events, empty_database_url: str) -> Iterator[Story]:
    settings = runtime.settings.model_copy(update={"connections": {"default": empty_database_url}})
    output = {"type": "postgres", "table": "copies", "allow_other_writers": True}

    def found() -> Counter[int]:
        with psycopg.connect(empty_database_url) as connection:
            return Counter(value for (value,) in connection.execute("SELECT v FROM copies"))

    yield Copies(replace(runtime, settings=settings), events).story(output, found)
    pool_of(empty_database_url).close()


@pytest.fixture
def function(runtime: Runtime, events: Events, tmp_path: Path) -> Story:
    """Each call leaves a file with its rows. Calls with one batch have the same rows; a reader takes one."""
    name = unique("keeps").replace("-", "_")  # a process loads a module once
    (source := tmp_path / name).mkdir()
    (source / f"{name}.py").write_text(KEEPS)
    pack(source, "keeps", "1", tmp_path / "packages")
    (folder := tmp_path / "calls").mkdir()
    settings = runtime.settings.model_copy(update={"packages_root": tmp_path / "packages"})

    def kept() -> Counter[int]:
        calls: dict[str, list[int]] = {}
        for path in folder.glob("[!.]*"):
            rows = json.loads(path.read_text())
            assert calls.setdefault(path.name.rpartition(".")[0], rows) == rows
        return Counter(value for rows in calls.values() for value in rows)

    fields = {"package": {"name": "keeps", "version": "1"}, "args": {"folder": str(folder)}}
    output = {"type": "foreach_batch", "python": f"{name}:keep"}
    return Copies(replace(runtime, settings=settings), events).story(output, kept, **fields)


@pytest.mark.long
@pytest.mark.parametrize("kind", ["pattern", "clusters", "sides", "function", "delta", "files", "postgres"])
def test_an_old_owner_that_goes_on_writes_nothing_twice(
    request: pytest.FixtureRequest, tmp_path: Path, kind: str
) -> None:
    """1. A host is in the middle of the rows. 2. This process takes its tasks over, and comes to the end of the rows.
    3. More rows come: at the latest with these the host ends its tasks, as what they write is refused."""
    story: Story = request.getfixturevalue(kind)
    job = story.job
    story.add(0, 1_000)
    own = {"spark_local_dir": tmp_path / "spark", "heap_bytes": 600 * 2**20, "spark_conf": quick_start()}
    specs = task_specs(job.name, job.layout)
    with running_host("replaced", job.runtime.settings.model_copy(update=own), tmp_path) as host:
        for spec in specs:
            assert host.start(spec).ok
        host.wait_for_records(specs[0].task_id, 200)
        job.run()
        story.add(1_000, 1_100)
        ended = [host.next_ended() for _ in specs]
        assert {each.task_id for each in ended} == {spec.task_id for spec in specs}
        assert {each.error_kind for each in ended} <= {"fenced", "retryable"}, ended
    story.close()
    job.run()
    assert story.written() == story.expected()


@pytest.mark.long
@pytest.mark.parametrize("kind", ["pattern", "clusters", "function", "delta", "files", "postgres"])
def test_a_job_that_begins_with_a_savepoint_has_exactly_the_rest(request: pytest.FixtureRequest, kind: str) -> None:
    """1. Two tasks read, and are saved. 2. More rows come. 3. A job of three tasks begins with the savepoint: what both
    have written is each row once."""
    story: Story = request.getfixturevalue(kind)
    job = story.job
    story.add(0, 400)
    job.run()
    take(job.runtime, SavepointRequest(job=job.name, name="s", number=1, layout=job.layout, earlier=()))
    source = job.layout.model_copy(update={"savepoint": SavepointName(job=job.name, name="s")})
    other = Job(job.runtime, job.config.model_copy(update={"task_count": 3, **story.changes}))
    redistribute(job.runtime, RedistributionRequest(job=other.name, source=source, target=other.layout))
    story.add(400, 600)
    story.close()
    other.run()
    assert story.written() == story.expected()
