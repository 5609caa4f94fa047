"""The graph around a job, over HTTP on a real store: also with a topic of 10,000 readers."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import text

from penstock.control.errors import InvalidConfig, NotFound
from penstock.store.engine import transaction
from penstock.wire.job_client import JobClient
from penstock.wire.lineage import Lineage
from services.job_service.store import flows
from services.job_service.store.analyses import topics_written
from tests.integration.job_service.test_flows import TABLE, reading
from tests.integration.test_at_size import rows_read
from tests.support.cli.shell import Shell
from tests.support.job_service.service import RunningJobService

READERS = 10_000
_FILL = f"""
    SET LOCAL session_replication_role = 'replica';
    INSERT INTO jobs (name, owner, revision) SELECT 'reader-' || n, 'team', n FROM generate_series(1, {READERS}) n;
    INSERT INTO flows (job, reads, writes, dead_letters)
        SELECT 'reader-' || n, ARRAY['hub', 'side-' || n], 'out-' || n, 'dead-' || n
        FROM generate_series(1, {READERS}) n;
"""


def distances(found: Lineage) -> dict[str, int]:
    return {job.job: job.distance for job in found.jobs}


def uses(found: Lineage) -> set[tuple[str, str, str]]:
    return {(edge.job, edge.use, edge.dataset) for edge in found.edges}


@pytest.fixture
def chain(client: JobClient) -> None:
    """raw > clean > rows > count > counts, a table of two jobs, and a job that mends malformed records."""
    client.put_job("clean", reading("raw", "rows"), verify=False)
    client.put_job("count", {**reading("rows", "counts"), "dead_letter_topic": "bad-counts"}, verify=False)
    shared = {**TABLE, "inputs": reading("counts", "")["inputs"], "query": {"sql": "SELECT value FROM rows"}}
    shared["output"] = {**TABLE["output"], "allow_other_writers": True}
    client.put_job("keep", shared, verify=False)
    client.put_job("mend", reading("bad-counts", "mended"), verify=False)


@pytest.mark.usefixtures("chain")
def test_the_jobs_around_a_job_are_told_with_what_is_between_them(client: JobClient) -> None:
    found = client.lineage("count")
    assert distances(found) == {"clean": -1, "count": 0, "keep": 1, "mend": 1}
    assert uses(found) == {
        ("clean", "reads", "raw"),
        ("clean", "writes", "rows"),
        ("count", "reads", "rows"),
        ("count", "writes", "counts"),
        ("count", "dead_letters", "bad-counts"),
        ("keep", "reads", "counts"),
        ("keep", "writes", "/out/hello"),
        ("mend", "reads", "bad-counts"),
        ("mend", "writes", "mended"),
    }
    assert {dataset.name: dataset.kind for dataset in found.datasets}["/out/hello"] == "folder"
    assert (found.complete, found.depth, found.jobs[0].health) == (True, 3, "starting")
    assert distances(client.lineage("clean", depth=1)) == {"clean": 0, "count": 1}
    assert distances(client.lineage("mend")) == {"clean": -2, "count": -1, "mend": 0}


@pytest.mark.usefixtures("chain")
def test_the_command_shows_the_same(shell: Shell, client: JobClient) -> None:
    said = shell("lineage", "count", "--depth", "1").ok().splitlines()
    titles = [line for line in said if not line.startswith(" ")]
    assert titles == ["upstream, 1 job away", "this job", "downstream, 1 job away"]
    assert "rows -> counts; malformed records -> bad-counts" in "\n".join(said)
    assert Lineage.model_validate_json(shell("lineage", "count", "--json").ok()) == client.lineage("count")


@pytest.mark.usefixtures("chain")
def test_flows_that_an_earlier_release_left_are_read_from_the_configuration(
    client: JobClient, service: RunningJobService
) -> None:
    before = client.lineage("count")
    with transaction(service.engine) as connection:
        connection.execute(text("UPDATE flows SET dead_letters = NULL, folder = NULL"))
    assert client.lineage("count") == before


def test_the_places_of_side_outputs_are_in_the_graph(client: JobClient, service: RunningJobService) -> None:
    """1. Their topics lead to readers, and tables to jobs that read them, also one that is shared. 2. A list by topic
    has the job, and an analysis knows that the job makes the topic."""
    sides = {
        "part": {"output": {"type": "kafka", "topic": "part"}},
        "shared": {"output": {**TABLE["output"], "allow_other_writers": True}},
    }
    client.put_job("split", {**reading("raw", "rows"), "side_outputs": sides}, verify=False)
    client.put_job("next", reading("part", "done"), verify=False)
    table = {"path": "file:/out/hello", "format": "delta"}
    client.put_job("join", {**reading("other", "joined"), "tables": {"t": table}}, verify=False)
    found = client.lineage("split")
    assert distances(found) == {"split": 0, "join": 1, "next": 1}
    assert {use for use in uses(found) if use[:2] == ("split", "writes")} == {
        ("split", "writes", place) for place in ("rows", "part", "/out/hello")
    }
    assert distances(client.lineage("next")) == {"split": -1, "next": 0}
    assert distances(client.lineage("join")) == {"split": -1, "join": 0}
    assert [job.job for job in client.list_jobs(topic="part")] == ["next", "split"]
    with transaction(service.engine) as connection:
        assert topics_written(connection, besides="next") == {"rows", "part", "joined"}


def test_a_loop_that_is_allowed_ends(client: JobClient) -> None:
    client.put_job("there", reading("a", "b"), verify=False)
    client.put_job("back", reading("b", "a", allow_loop=True), verify=False)
    found = client.lineage("there", depth=10)
    assert distances(found) == {"back": -1, "there": 0}
    assert ("back", "writes", "a") in uses(found)
    assert ("back", "reads", "b") in uses(found)


def test_a_job_that_is_not_there_and_a_depth_that_is_none(client: JobClient) -> None:
    with pytest.raises(NotFound):
        client.lineage("nobody")
    client.put_job("there", reading("a", "b"), verify=False)
    for depth in (0, 11):
        with pytest.raises(InvalidConfig):
            client.lineage("there", depth=depth)


def test_of_a_topic_with_ten_thousand_readers_some_are_read_and_told(
    client: JobClient, service: RunningJobService
) -> None:
    """1. 200 jobs, also those upstream. 2. Each search reads so many rows, and with statistics uses the indexes."""
    client.put_job("source", reading("raw", "start"), verify=False)
    client.put_job("hub", reading("start", "hub"), verify=False)
    with service.engine.begin() as connection:
        connection.exec_driver_sql(_FILL)
    with service.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.exec_driver_sql("VACUUM ANALYZE flows")
    found = client.lineage("hub")
    assert (len(found.jobs), found.complete) == (200, False)
    assert distances(found)["source"] == -1
    assert len({edge.dataset for edge in found.edges}) == 201

    def read_by(statement: Any, *topics: str) -> int:
        return rows_read(service.engine, statement, {"topics": list(topics), "seen": ["hub"], "limit": 201})

    assert read_by(flows.READERS, "hub") < 5_000
    assert read_by(flows.READERS, "side-77") < 10
    assert read_by(flows.FILLERS, "out-77", "dead-78") < 10
