"""Jobs that read topics by a pattern: in every answer they are readers of the topics that it matches."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.control.errors import InvalidConfig
from penstock.store.engine import snapshot
from penstock.wire.job_client import JobClient
from services.job_service.store import flows
from tests.integration.job_service.test_flows import reading
from tests.support.job_service.service import RunningJobService


def reading_all(pattern: str, writing: str, *excluded: str) -> dict[str, Any]:
    """A job from all topics of a pattern but some to a topic."""
    config = reading("x", writing)
    source = {name: value for name, value in config["inputs"]["rows"].items() if name != "topic"}
    config["inputs"] = {"rows": {**source, "topic_pattern": pattern, "excluded_topics": list(excluded)}}
    return config


@pytest.fixture
def tenants(client: JobClient) -> None:
    """raw > clean > orders-a; orders-.* but orders-x > sum > sums > report."""
    client.put_job("clean", reading("raw", "orders-a"), verify=False)
    client.put_job("sum", reading_all("orders-.*", "sums", "orders-x"), verify=False)
    client.put_job("report", reading("sums", "reports"), verify=False)


@pytest.mark.usefixtures("tenants")
def test_a_reader_by_pattern_is_a_reader_of_each_topic(client: JobClient, service: RunningJobService) -> None:
    """1. Lineage, from both ends. 2. Who uses a topic, which may not be deleted then. 3. Who writes what it reads."""
    for job, distance in (("sum", -1), ("clean", 0), ("report", -2)):
        found = client.lineage(job)
        edges = {(edge.job, edge.use, edge.dataset) for edge in found.edges}
        assert {each.job: each.distance for each in found.jobs}["clean"] == distance
        assert {("clean", "writes", "orders-a"), ("sum", "reads", "orders-a"), ("sum", "writes", "sums")} <= edges
    topics = ("orders-a", "orders-b", "orders-x", "orders-b@eu", "sums")
    users = {topic: [job.job for job in client.list_jobs(topic=topic)] for topic in topics}
    assert users == {
        "orders-a": ["clean", "sum"],
        "orders-b": ["sum"],
        "orders-x": [],
        "orders-b@eu": [],
        "sums": ["report", "sum"],
    }
    with snapshot(service.engine) as connection:
        assert flows.written(connection, flows.read(connection, "sum").reads) >= {"orders-a"}


@pytest.mark.usefixtures("tenants")
def test_a_loop_by_a_pattern_is_refused_from_either_side(client: JobClient) -> None:
    """1. A writer of a topic that the pattern matches, behind its readers. 2. A pattern that matches what comes of the
    job. 3. With the topic excluded it is none."""
    with pytest.raises(InvalidConfig, match=r"back > orders-\.\* > sum > sums > report > reports > back"):
        client.put_job("back", reading("reports", "orders-b"), verify=False)
    with pytest.raises(InvalidConfig, match=r"again > raw > clean > orders-\.\* > sum > su\.\*\|rep\.\* > again"):
        client.put_job("again", reading_all("su.*|rep.*", "raw"), verify=False)
    client.put_job("back", reading("reports", "orders-x"), verify=False)
