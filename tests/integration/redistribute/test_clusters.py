"""A job over two Kafka clusters, with two real brokers: topics of one name on both, so a mix-up shows in the rows."""

from __future__ import annotations

import json
import os
import re
import signal
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from penstock.config.model import JobConfig
from penstock.control.errors import Unavailable
from penstock.kafka.clusters import clusters_of
from penstock.local.kafka import EmbeddedKafka
from penstock.local.topics import create_topics
from penstock.spark.collect import collect
from penstock.spark.fence import FENCE
from penstock.spark.redistribute.engine import redistribute
from penstock.spark.redistribute.positions import task_specs
from penstock.spark.redistribute.seal import seal
from penstock.spark.savepoint.take import take
from penstock.spark.task import Runtime
from penstock.spark.topics import described
from penstock.tasks.redistribution import GenerationRemoval, RedistributionRequest, SavepointName, SealRequest
from penstock.tasks.savepoint import SavepointRequest
from tests.support.spark.hosts import REPLY_SECONDS, quick_start, running_host
from tests.support.spark.redistribution import (
    KEY_GROUPS,
    Events,
    Job,
    Keys,
    Row,
    job_config,
    records_of,
    rows_of_topic,
)
from tests.support.spark.session import unique

QUERY = """
    SELECT src, k, window.start AS at, count(*) AS c, sum(v) AS s
    FROM (SELECT 'here' AS src, k, v, at FROM here UNION ALL SELECT 'there' AS src, k, v, at FROM there)
    GROUP BY src, k, window(at, '10 seconds')
"""


class Feeds:
    """A topic of one name on both clusters, with other rows on each, and a topic for the output."""

    def __init__(self, kafka: EmbeddedKafka, eu: EmbeddedKafka, keys: Keys) -> None:
        self.topic, self.output = unique("orders"), unique("sums")
        for bootstrap in (kafka.bootstrap, eu.bootstrap):
            create_topics(bootstrap, {self.topic: KEY_GROUPS, self.output: 1})
        self.here = Events(kafka.bootstrap, self.topic, keys)
        self.there = Events(eu.bootstrap, self.topic, keys)
        self._fed: list[tuple[str, str, int, int]] = []

    def config(self, **more: Any) -> JobConfig:
        """A job that reads both topics and writes to the one on the cluster `eu`."""
        output = {"type": "kafka", "topic": self.output, "cluster": "eu"}
        inputs = {"here": self.topic, "there": self.topic}
        fields = {"query": {"sql": QUERY}, "max_records_per_trigger": 10_000, **more}
        config = job_config(inputs, "spark", output, **fields)
        there = config.inputs["there"].model_copy(update={"cluster": "eu"})
        return config.model_copy(update={"inputs": {**config.inputs, "there": there}})

    def add(self, lo: int, hi: int) -> None:
        """Rows `lo` to `hi`: all of them there, every other one here."""
        for src, events, step in (("here", self.here, 2), ("there", self.there, 1)):
            rows = [_row(events.keys, number) for number in range(lo, hi, step)]
            events.add(rows)
            self._fed += [(src, key, value, int(at)) for key, value, at in rows]

    def close(self) -> None:
        """Rows that close all windows."""
        for events in (self.here, self.there):
            events.add_far_future()

    def expected(self) -> Counter[Row]:
        """The answer of a batch over all that was added."""
        sums: dict[tuple[str, str, int], list[int]] = {}
        for src, key, value, at in self._fed:
            entry = sums.setdefault((src, key, at // 10), [0, 0])
            entry[0] += 1
            entry[1] += value
        return Counter(
            tuple(sorted({"src": src, "k": key, "w": window, "c": c, "s": s}.items()))
            for (src, key, window), (c, s) in sums.items()
        )

    def written(self) -> Counter[Row]:
        """What the job wrote to the cluster `eu`."""
        found = rows_of_topic(self.there.bootstrap, self.output)
        return Counter(
            tuple(sorted({**{name: row[name] for name in ("src", "k", "c", "s")}, "w": _window(row["at"])}.items()))
            for row in found
        )


def _row(keys: Keys, number: int) -> tuple[str, int, float]:
    return keys.names[number * 7 % len(keys.names)], number, number * 0.5


def _window(start: str) -> int:
    minutes, seconds = start[14:16], start[17:19]
    return (int(start[11:13]) * 3600 + int(minutes) * 60 + int(seconds)) // 10


def forget_last_commits(job: Job) -> None:
    """As a kill leaves it that comes when Kafka has committed the batch, and the checkpoint has not."""
    for index in range(job.config.task_count):
        commits = job.checkpoint(index) / "commits"
        last = max(int(path.name) for path in commits.iterdir() if path.name.isdigit())
        for path in (commits / str(last), commits / f".{last}.crc"):
            path.unlink(missing_ok=True)


@pytest.mark.long
def test_two_clusters_are_read_and_one_is_written_exactly_once(
    both: Runtime, kafka: EmbeddedKafka, eu: EmbeddedKafka, keys: Keys
) -> None:
    """1. Topics of one name on both brokers; one record there is malformed. 2. The task ends between the commits of
    Kafka and of the checkpoint: nothing is written twice. 3. A rescale. 4. The rows are those of a batch; the output
    topic of that name on the cell's own Kafka is empty. 5. Marks are beside the output, dead letters are here."""
    feeds = Feeds(kafka, eu, keys)
    job = Job(both, feeds.config(task_count=1))
    feeds.add(0, 200)
    producer = Producer({"bootstrap.servers": eu.bootstrap})
    producer.produce(feeds.topic, key="k", value=b"no JSON", partition=0)
    assert producer.flush(30) == 0
    job.run()
    forget_last_commits(job)
    feeds.add(200, 400)
    job.run()
    offsets = (job.checkpoint(0) / "offsets" / "0").read_text().splitlines()[2:]
    assert sorted(next(iter(json.loads(line))) for line in offsets) == [feeds.topic, f"{feeds.topic}@eu"]

    assert job.rescale(task_count=2).state_rows > 0
    feeds.add(400, 500)
    feeds.close()
    job.run()
    written = feeds.written()
    assert written == feeds.expected()
    assert {row[-2] for row in written} >= {("src", "here"), ("src", "there")}
    assert records_of(kafka.bootstrap, feeds.output) == []

    marks = f"{feeds.output}.penstock-marks"
    assert described(eu.bootstrap, [marks])[marks].partitions == 1
    assert described(kafka.bootstrap, [marks])[marks].is_missing
    letters = f"{job.name}.dead-letters"
    assert described(eu.bootstrap, [letters])[letters].is_missing
    (letter,) = records_of(kafka.bootstrap, letters)
    headers = {name: value.decode() for name, value in letter.headers() or []}
    assert (letter.value(), headers["penstock.input"], headers["penstock.topic"], headers["penstock.cluster"]) == (
        b"no JSON", "there", feeds.topic, "eu",
    )  # fmt: skip
    seal(both, SealRequest(job=job.name, layout=job.layout))


@pytest.mark.long
def test_an_output_moves_to_another_cluster_without_a_row_twice_or_lost(
    both: Runtime, kafka: EmbeddedKafka, eu: EmbeddedKafka, keys: Keys
) -> None:
    """A batch is pending when the output moves: it goes to the cluster before, whose marker says that it is there."""
    feeds = Feeds(kafka, eu, keys)
    job = Job(both, feeds.config(task_count=2))
    feeds.add(0, 400)
    job.run()
    before = feeds.written()
    assert before
    forget_last_commits(job)
    report = job.rescale(output=job.config.output.model_copy(update={"cluster": None}))
    assert report.settled == 2
    feeds.add(400, 500)
    feeds.close()
    job.run()
    assert feeds.written() == before
    moved = Feeds.written(replace_output(feeds, kafka))
    assert before + moved == feeds.expected()


@pytest.mark.long
def test_an_output_leaves_a_cluster_that_does_not_answer_only_once_it_is_said_to_be_gone(
    both: Runtime, kafka: EmbeddedKafka, eu: EmbeddedKafka, keys: Keys
) -> None:
    """1. A batch is pending on a cluster that dies. 2. The copy says so before the job stops, and copies nothing. 3. So
    the rescale is refused with the cluster, the reason and what to do; no checkpoint is claimed, so the old tasks can
    go on, and a seal says the same. 4. The cluster is said to be gone: the pending batch goes to the new output too,
    the rest is there once, and the old generation is collected."""
    feeds = Feeds(kafka, eu, keys)
    config = feeds.config(task_count=2, query={"sql": "SELECT 'here' AS src, k, v FROM here"})
    job = Job(both, config.model_copy(update={"inputs": {"here": config.inputs["here"]}}))
    feeds.add(0, 400)
    job.run()
    forget_last_commits(job)
    fences = [(job.checkpoint(index) / FENCE).read_bytes() for index in range(2)]

    moved = job.config.output.model_copy(update={"cluster": None})
    dead = {"eu": {"bootstrap": "127.0.0.1:1"}}
    job.runtime = knowing(both, dead)
    waits = r"transactions on the Kafka eu \(127.0.0.1:1\): .* set eu.gone to true in PENSTOCK_KAFKA_CLUSTERS"
    before_the_stop = job.copy(output=moved)
    assert (before_the_stop.rows, re.search(waits, before_the_stop.unsealable or "") is None) == (0, False)
    with pytest.raises(Unavailable, match=waits):
        job.rescale(output=moved)
    assert [(job.checkpoint(index) / FENCE).read_bytes() for index in range(2)] == fences

    job.runtime = knowing(both, {"eu": {**dead["eu"], "gone": True}})
    request = SealRequest(job=job.name, layout=job.layout)
    assert job.copy(output=moved).unsealable is None
    assert job.rescale(output=moved).settled == 2
    with pytest.raises(Unavailable, match=waits):
        seal(knowing(both, dead), request)
    seal(job.runtime, request)
    collect(job.runtime, GenerationRemoval(job=job.name, generation=1, forgotten=True))
    feeds.add(400, 500)
    job.run()
    written = [row["v"] for row in rows_of_topic(kafka.bootstrap, feeds.output)]
    assert sorted(written) == list(range(0, 500, 2))


@pytest.mark.long
def test_a_restore_is_refused_while_what_it_replaces_could_not_be_sealed(
    both: Runtime, kafka: EmbeddedKafka, eu: EmbeddedKafka, keys: Keys
) -> None:
    """1. A job that writes to another cluster has a savepoint. 2. The cluster dies: the job is not restored, and its
    generation can go on. 3. The cluster is back: it is restored."""
    feeds = Feeds(kafka, eu, keys)
    job = Job(both, feeds.config(task_count=2))
    feeds.add(0, 200)
    job.run()
    layout = job.layout
    take(both, SavepointRequest(job=job.name, name="good", number=1, layout=layout, earlier=()))
    source = layout.model_copy(update={"savepoint": SavepointName(job=job.name, name="good")})
    target = layout.model_copy(update={"generation": 2})
    request = RedistributionRequest(job=job.name, source=source, target=target, seals=layout)
    with pytest.raises(Unavailable, match=r"transactions on the Kafka eu \(127.0.0.1:1\)"):
        redistribute(knowing(both, {"eu": {"bootstrap": "127.0.0.1:1"}}), request)
    assert not list(job.checkpoint(0).parent.parent.glob("g2/*/commits/*"))
    assert redistribute(both, request).state_rows > 0


def knowing(runtime: Runtime, clusters: dict[str, Any]) -> Runtime:
    """A host with another setting of the further clusters."""
    return replace(runtime, settings=runtime.settings.model_copy(update={"kafka_clusters": clusters_of(clusters)}))


def replace_output(feeds: Feeds, kafka: EmbeddedKafka) -> Any:
    """What reads the output topic of the other broker."""
    other = object.__new__(Feeds)
    other.output, other.there = feeds.output, Events(kafka.bootstrap, feeds.topic, feeds.here.keys)
    return other


@pytest.mark.long
def test_a_host_is_killed_while_it_reads_two_clusters(
    both: Runtime, kafka: EmbeddedKafka, eu: EmbeddedKafka, keys: Keys, tmp_path: Path
) -> None:
    """1. A host of its own runs the tasks and says how far they are in each topic. 2. It is killed in the middle. 3.
    This process goes on, with other tasks: the rows are those of a batch."""
    feeds = Feeds(kafka, eu, keys)
    job = Job(both, feeds.config(task_count=2, max_records_per_trigger=200))
    feeds.add(0, 2_000)
    own = {"spark_local_dir": tmp_path / "spark", "heap_bytes": 600 * 2**20, "spark_conf": quick_start()}
    settings = both.settings.model_copy(update=own)
    specs = task_specs(job.name, job.layout)
    with running_host("killed", settings, tmp_path) as host:
        for spec in specs:
            assert host.start(spec).ok
        host.wait_for_records(specs[0].task_id, 600)
        assert set(host.progress[specs[0].task_id].offsets) == {feeds.topic, f"{feeds.topic}@eu"}
        os.kill(host.host.pid, signal.SIGKILL)
        host.exit.result(REPLY_SECONDS)
    job.rescale(task_count=3)
    feeds.add(2_000, 2_100)
    feeds.close()
    job.run()
    assert feeds.written() == feeds.expected()
    assert records_of(kafka.bootstrap, feeds.output) == []
