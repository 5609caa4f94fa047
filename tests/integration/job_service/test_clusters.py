"""Jobs over several Kafka clusters: topics of one name on two of them are two topics, in every answer."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import text

from penstock.control.errors import InvalidConfig
from penstock.store.engine import snapshot, transaction
from penstock.wire.job_client import JobClient
from services.job_service.store.analyses import topics_written
from tests.integration.job_service.test_flows import reading
from tests.support.job_service.service import RunningJobService


def at(cluster: str | None, topic: str, writing: str, to: str | None) -> dict[str, Any]:
    """A job from a topic of one cluster to a topic of another."""
    config = reading(topic, writing, **({} if to is None else {"cluster": to}))
    if cluster is not None:
        config["inputs"]["rows"]["cluster"] = cluster
    return config


@pytest.fixture
def mirror(client: JobClient) -> None:
    """orders of the cell > orders of eu > sums of eu."""
    client.put_job("mirror", at(None, "orders", "orders", "eu"), verify=False)
    client.put_job("sum", at("eu", "orders", "sums", "eu"), verify=False)


@pytest.mark.usefixtures("mirror")
def test_topics_of_two_clusters_are_told_apart(client: JobClient, service: RunningJobService) -> None:
    """1. Lineage. 2. Who uses a topic, also as it is to run. 3. Who writes it."""
    edges = {(edge.job, edge.use, edge.dataset) for edge in client.lineage("sum").edges}
    assert {("mirror", "writes", "orders@eu"), ("sum", "reads", "orders@eu"), ("mirror", "reads", "orders")} <= edges

    users = {topic: [job.job for job in client.list_jobs(topic=topic)] for topic in ("orders", "orders@eu", "sums")}
    assert users == {"orders": ["mirror"], "orders@eu": ["mirror", "sum"], "sums": []}

    with snapshot(service.engine) as connection:
        written = topics_written(connection, besides="x")
    assert written & {"orders", "orders@eu", "orders@us"} == {"orders@eu"}


@pytest.mark.usefixtures("mirror")
def test_a_loop_over_two_clusters_is_refused(client: JobClient) -> None:
    """1. The way back to the cell's own topic closes it; one to a third cluster does not. 2. A name has a rule."""
    with pytest.raises(InvalidConfig, match="back > orders > mirror > orders@eu > back") as refused:
        client.put_job("back", at("eu", "orders", "orders", None), verify=False)
    assert (refused.value.field, refused.value.rule) == ("output.topic", "loop")
    client.put_job("back", at("eu", "orders", "orders", "us"), verify=False)
    with pytest.raises(InvalidConfig) as wrong:
        client.put_job("wrong", at("EU", "orders", "x", None), verify=False)
    assert wrong.value.field == "inputs.rows.cluster"


def test_a_job_without_a_cluster_is_stored_without_the_field(client: JobClient, service: RunningJobService) -> None:
    client.put_job("plain", reading("a", "b"), verify=False)
    with transaction(service.engine) as connection:
        stored = connection.execute(text("SELECT config::text FROM expected_configs WHERE job = 'plain'")).scalar_one()
    assert "cluster" not in stored
