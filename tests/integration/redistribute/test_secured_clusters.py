"""A further Kafka cluster that asks who is there: a job reads and writes it exactly once, no login in the job."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka.admin import AclOperation, ResourceType

from penstock.control.errors import Unavailable
from penstock.kafka.access import Kafka
from penstock.kafka.clusters import clusters_of
from penstock.local import records
from penstock.spark.analysis.analyse import analyse
from penstock.spark.task import Runtime
from tests.support.kafka.secured import SecuredKafka, settings_of
from tests.support.spark.redistribution import KEY_GROUPS, Events, Job, job_config, rows_of_topic

READ, WRITE, DESCRIBE, CREATE = AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE, AclOperation.CREATE
PASSWORD = "password-of-the-cluster"


@pytest.fixture(scope="module")
def secured(servers_dir: Path) -> Iterator[SecuredKafka]:
    """SASL_SSL with ACLs. `alice` (PLAIN) may read `orders`, and write `copies` in transactions."""
    with SecuredKafka(servers_dir / "secured-eu", {"alice": PASSWORD}) as server:
        for name, partitions, rights in (("orders", KEY_GROUPS, [READ]), ("copies", 1, [READ, WRITE, CREATE])):
            server.make_topic(name, partitions)
            server.allow("alice", ResourceType.TOPIC, name, DESCRIBE, *rights)
        server.allow("alice", ResourceType.TRANSACTIONAL_ID, "penstock-", WRITE, DESCRIBE)
        server.allow("alice", ResourceType.GROUP, "penstock-", READ, DESCRIBE)
        yield server


def knowing(runtime: Runtime, kafka: Kafka, folder: Path) -> Runtime:
    """A host whose setting has the cluster `eu` with this login, the password in a file."""
    login = {name.removeprefix("kafka_"): value for name, value in settings_of(kafka, folder).items()}
    clusters = clusters_of({"eu": {"bootstrap": kafka.bootstrap, **{k: str(v) for k, v in login.items() if v}}})
    return replace(runtime, settings=runtime.settings.model_copy(update={"kafka_clusters": clusters}))


@pytest.mark.long
def test_a_job_reads_and_writes_a_secured_cluster_beside_an_open_one_exactly_once(
    runtime: Runtime, secured: SecuredKafka, events: Events, tmp_path: Path
) -> None:
    """1. A batch of rows of both clusters is written to the secured one, and its commit is lost. 2. A rescale ends the
    series of transactions there. 3. Each row is there once. 4. With a password that is refused a plan says who is
    refused and where, and the task waits."""
    alice = secured.as_user("alice", PASSWORD, is_scram=False)
    output = {"type": "kafka", "topic": "copies", "cluster": "eu"}
    query = {"sql": "SELECT 'here' AS src, v FROM here UNION ALL SELECT 'there' AS src, v FROM there"}
    config = job_config({"here": events.topic, "there": "orders"}, "none", output, query=query)
    there = config.inputs["there"].model_copy(update={"cluster": "eu"})
    config = config.model_copy(update={"inputs": {**config.inputs, "there": there}})
    job = Job(knowing(runtime, alice, tmp_path), config)
    assert analyse(job.runtime.spark, job.runtime.settings, job.name, config).problems == []
    for first in (0, 100):
        events.add_range(first, first + 100)
        rows = io.StringIO("".join(f'{{"v": {number}}}\n' for number in range(first, first + 100)))
        records.produce(secured.by_administrator, "orders", KEY_GROUPS, rows, records.json_lines())
        if first:
            job.rescale(task_count=2)
        job.run()
        _forget_last_commit(job)
    job.run()
    expected = Counter(("here", number // 3 * 3) for number in range(200)) + Counter(("there", n) for n in range(200))
    written = rows_of_topic(secured.by_administrator, "copies")
    assert Counter((row["src"], row["v"]) for row in written) == expected

    refused = knowing(runtime, replace(alice, password="another-password"), tmp_path)
    told = f"kafka refuses {alice.login()} at"
    with pytest.raises(Unavailable, match=told.replace("(", r"\(").replace(")", r"\)")):
        Job(refused, config).run([0])
    found = analyse(refused.spark, refused.settings, job.name, config)
    assert {(each.field, each.rule) for each in found.logins} >= {("inputs", "kafka_login")}
    assert "another-password" not in str(found)


def _forget_last_commit(job: Job) -> None:
    """As a kill leaves the first task that comes when Kafka has committed the batch, and the checkpoint has not."""
    commits = job.checkpoint(0) / "commits"
    last = max(int(path.name) for path in commits.iterdir() if path.name.isdigit())
    for path in (commits / str(last), commits / f".{last}.crc"):
        path.unlink(missing_ok=True)
