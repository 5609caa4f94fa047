"""Jobs that would feed each other for ever, or share a folder, are refused over HTTP, also when written at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from sqlalchemy import Engine, text

from penstock.control.errors import InvalidConfig
from penstock.store.engine import transaction
from penstock.wire.job_client import JobClient
from penstock.wire.jobs import BatchAction, BatchWrite
from services.job_service.flows import flow_of
from services.job_service.housekeeping import Housekeeping
from services.job_service.store import flows
from tests.support.control.clock import FakeClock
from tests.support.job_service.service import CONFIG, RunningJobService
from tests.support.store.jobs import write_layer

TABLE: dict[str, Any] = {**CONFIG, "output": {"type": "delta", "path": "file:/out/hello/"}}
# What a Job Service of the release before writes.
_BEFORE = text(
    """
    INSERT INTO flows (job, reads, writes) VALUES (:job, :reads, :writes)
    ON CONFLICT (job) DO UPDATE SET reads = excluded.reads, writes = excluded.writes, folder = excluded.folder,
        may_loop = excluded.may_loop
    """
)

# What one writes that knows dead letters, and no tables of Postgres.
_NOTED_BEFORE = text(
    "INSERT INTO flows (job, reads, writes, folder, may_loop, dead_letters)"
    " VALUES (:job, :reads, :writes, :folder, :may_loop, :dead_letters)"
)


def reading(topic: str, writing: str, **output: Any) -> dict[str, Any]:
    source = {"topic": topic, "key_groups": 8, "format": "raw"}
    query = {"sql": "SELECT value FROM rows"}
    return {
        **CONFIG,
        "query": query,
        "inputs": {"rows": source},
        "output": {"type": "kafka", "topic": writing, **output},
    }


def test_a_loop_over_several_jobs_is_refused_until_it_is_allowed(client: JobClient) -> None:
    """1. The third job would close a loop: told with the way, and nothing is stored. 2. An override and a plan are told
    the same. 3. It is allowed. 4. The loop is opened elsewhere, so that it needs no leave."""
    client.put_job("a", reading("t0", "t1"))
    client.put_job("b", reading("t1", "t2"))
    with pytest.raises(InvalidConfig, match="c > t0 > a > t1 > b > t2 > c") as refused:
        client.put_job("c", reading("t2", "t0"))
    assert (refused.value.field, refused.value.rule) == ("output.topic", "loop")
    client.put_job("c", reading("t2", "t3"))
    override: dict[str, Any] = {"output": {"topic": "t0"}}
    with pytest.raises(InvalidConfig, match="c > t0 > a"):
        client.put_layer("c", "oncall", override, if_match=0)
    with pytest.raises(InvalidConfig, match="c > t0 > a"):
        client.plan("c", override)
    client.put_layer("c", "oncall", {"output": {"topic": "t0", "allow_loop": True}}, if_match=0)
    client.delete_job("b")
    assert client.get_job("c").config["output"]["allow_loop"] is True


def _streaming(reads: str, writes: str, **more: Any) -> dict[str, Any]:
    streams = {"rows": {"format": "delta", "path": reads}}
    output = {"type": "delta", "path": writes, **more}
    return {**CONFIG, "inputs": {}, "streams": streams, "query": {"sql": "SELECT * FROM rows"}, "output": output}


def test_a_loop_by_delta_tables_is_refused_until_it_is_allowed(client: JobClient) -> None:
    """1. One table is read by a topic's job, which writes the next. 2. A job that reads that one as a stream may not
    write the first, also by a side output, and in a plan. 3. One that looks rows up in it may. 4. It is allowed."""
    table = {"known": {"format": "delta", "path": "/a"}}
    client.put_job("a", _streaming("/a", "/b"), verify=False)
    sides = {"s": {"output": {"type": "delta", "path": "/a"}}}
    for loops, field in (
        (_streaming("file:/b", "/a/"), "output.path"),
        ({**_streaming("/b", "/c"), "side_outputs": sides}, "side_outputs.s.output.path"),
        (_streaming("/b", "/a", allow_other_writers=True), "output.path"),
    ):
        for ask in (client.plan, client.put_job):
            with pytest.raises(InvalidConfig, match="c > /a > a > /b > c") as refused:
                ask("c", loops, verify=False)
            assert (refused.value.field, refused.value.rule) == (field, "loop")
    client.put_job("looks", {**CONFIG, "tables": table, "output": {"type": "delta", "path": "/d"}}, verify=False)
    client.put_job("back", _streaming("/d", "/a", allow_other_writers=True), verify=False)
    client.put_job("c", _streaming("/b", "/e", allow_loop=True), verify=False)
    client.put_layer("c", "oncall", {"output": {"allow_other_writers": True, "path": "/a"}}, if_match=0)


def test_of_two_jobs_that_are_written_at_once_only_one_may_close_the_loop(
    client: JobClient, service: RunningJobService
) -> None:
    """By two calls at once, eight times; and by one batch, in its order."""

    def try_to(job: str, config: dict[str, Any]) -> bool:
        with service.client() as own:
            try:
                own.put_job(job, config)
            except InvalidConfig:
                return False
            return True

    with ThreadPoolExecutor(8) as pool:
        halves = [
            pool.submit(try_to, f"{half}{n}", reading(f"{half}{n}", f"{other}{n}"))
            for n in range(8)
            for half, other in ("xy", "yx")
        ]
        taken = [half.result() for half in halves]
    assert [sum(taken[n : n + 2]) for n in range(0, 16, 2)] == [1] * 8
    configs = [("p", reading("u", "v")), ("q", reading("v", "u")), ("r", reading("u", "w"))]
    results = client.batch([BatchWrite(action=BatchAction.PUT_JOB, job=job, config=config) for job, config in configs])
    assert [result.problem is None for result in results] == [True, False, True]
    assert [job.job for job in client.list_jobs() if job.job in "pqr"] == ["p", "r"]


def test_a_folder_of_another_job_is_refused(client: JobClient) -> None:
    files = {**CONFIG, "output": {"type": "files", "path": "/out/hello"}}
    client.put_job("hello", files)
    with pytest.raises(InvalidConfig, match="the job hello writes to /out/hello") as refused:
        client.put_job("hello2", files)
    assert refused.value.rule == "folder_taken"
    table = {**CONFIG, "output": {"type": "delta", "path": "file:/out/hello/"}}
    with pytest.raises(InvalidConfig, match="the job hello writes to /out/hello"):
        client.put_job("hello2", table)
    with pytest.raises(InvalidConfig, match="the job hello writes to /out/hello"):
        client.plan("hello2", table)
    client.put_job("hello", {**files, "task_count": 2})


def test_a_postgres_table_of_another_job_is_refused_unless_it_is_meant(
    client: JobClient, service: RunningJobService
) -> None:
    """Also one of a job of the release before."""
    table = {"type": "postgres", "table": "public.sums"}
    written_before(service.engine, "a", {**CONFIG, "output": {"connection": "default", **table}})
    for ask in (client.plan, client.put_job):
        with pytest.raises(InvalidConfig, match="the job a writes to the table sums of the connection default") as told:
            ask("b", {**CONFIG, "output": {"type": "postgres", "table": "sums"}})
        assert (told.value.field, told.value.rule) == ("output.table", "table_taken")
    client.put_job("b", {**CONFIG, "output": {**table, "allow_other_writers": True}})
    client.put_job("a", {**CONFIG, "output": table, "task_count": 2})


def test_side_outputs_are_refused_as_outputs_are(client: JobClient, service: RunningJobService) -> None:
    """1. A loop by a side output. 2. A table or folder of another job, in a plan and a write, from both sides. 3. What
    a Job Service of the release before changes is known. 4. Who goes leaves the places free."""
    side = {"type": "postgres", "table": "sums"}
    client.put_job("a", {**reading("t0", "t1"), "side_outputs": {"s": {"output": {"type": "kafka", "topic": "t2"}}}})
    with pytest.raises(InvalidConfig, match="b > t0 > a > t2 > b") as refused:
        client.put_job(
            "b", {**reading("t2", "t3"), "side_outputs": {"s": {"output": {"type": "kafka", "topic": "t0"}}}}
        )
    assert (refused.value.field, refused.value.rule) == ("side_outputs.s.output.topic", "loop")
    client.put_job("b", {**CONFIG, "output": side, "side_outputs": {"d": {"output": TABLE["output"]}}})
    for config, field, rule in (
        ({**CONFIG, "side_outputs": {"p": {"output": side}}}, "side_outputs.p.output.table", "table_taken"),
        (TABLE, "output.path", "folder_taken"),
    ):
        for ask in (client.plan, client.put_job):
            with pytest.raises(InvalidConfig, match="the job b writes to") as refused:
                ask("c", config)
            assert (refused.value.field, refused.value.rule) == (field, rule)
    write_layer(service.engine, "b", {**CONFIG, "output": side})
    client.put_job("c", TABLE)
    client.delete_job("a")
    assert noted(service.engine)[-1].side_topics == ()


def test_tables_that_an_earlier_release_noted_without_their_names_are_mended(
    client: JobClient, service: RunningJobService
) -> None:
    """1. Two jobs have one table. 2. Once the next pass has mended them, both can be written, and no third takes it.
    3. A table that is shared, and another output, are left as they are."""
    table = {**CONFIG, "output": {"type": "postgres", "table": "sums"}}
    for job in ("a", "b"):
        write_layer(service.engine, job, table)
    client.put_job("shared", {**CONFIG, "output": {**table["output"], "table": "t", "allow_other_writers": True}})
    client.put_job("etl", CONFIG)
    with transaction(service.engine) as connection:
        for job in ("a", "b"):
            flow = flow_of(job, table)._replace(folder=None)
            connection.execute(_NOTED_BEFORE, flow._asdict() | {"reads": list(flow.reads)})
        kept = "SELECT job, xmin::text FROM flows WHERE job IN ('shared', 'etl') ORDER BY job"
        before = connection.execute(text(kept)).all()
    Housekeeping(service.engine, FakeClock(), "none", {}).round(1)
    for job in ("a", "b"):
        client.put_layer(job, "oncall", {"desired_state": "stopped"}, if_match=0)
    with pytest.raises(InvalidConfig, match="the job a writes to the table sums"):
        client.put_job("c", table)
    with transaction(service.engine) as connection:
        assert connection.execute(text(kept)).all() == before


def test_an_output_among_the_malformed_records_of_another_job_is_refused(client: JobClient) -> None:
    """1. By its default name, at a plan and at a write. 2. The other way round. 3. Once the job names another topic."""
    client.put_job("etl", CONFIG)
    among = {**CONFIG, "output": {"type": "kafka", "topic": "etl.dead-letters"}}
    for ask in (client.plan, client.put_job):
        with pytest.raises(InvalidConfig, match="malformed records of the job etl") as refused:
            ask("repair", among)
        assert refused.value.field == "output.topic"
    with pytest.raises(InvalidConfig, match="is the output of the job etl") as refused:
        client.put_job("other", {**among, "output": {"type": "kafka", "topic": "x"}, "dead_letter_topic": "clean"})
    assert refused.value.field == "dead_letter_topic"
    client.put_job("etl", {**CONFIG, "dead_letter_topic": "bad"})
    client.put_job("repair", among)


def written_before(engine: Engine, job: str, config: dict[str, Any]) -> None:
    """The job as a Job Service of the release before stores it: unchecked, without its table or dead letters."""
    write_layer(engine, job, config)
    flow = flow_of(job, config)
    with transaction(engine) as connection:
        connection.execute(_BEFORE, {"job": job, "reads": list(flow.reads), "writes": flow.writes})


def noted(engine: Engine) -> list[flows.Flow]:
    """All flows that are stored whole, after those that are not were noted."""
    with transaction(engine) as connection:
        while flows.note(connection, 1):
            pass
        rows = connection.execute(text("SELECT * FROM flows WHERE dead_letters IS NOT NULL ORDER BY job"))
        return [flows.of_row(*(getattr(row, name) for name in flows.Flow._fields)) for row in rows]


def test_jobs_of_the_release_before_can_be_written_whatever_newer_rule_they_break(
    client: JobClient, service: RunningJobService
) -> None:
    """1. Rows of `b` go among the malformed records of `a`. 2. Both can be stopped and changed, before and after their
    flows are noted."""
    among = {**CONFIG, "output": {"type": "kafka", "topic": "errors"}}
    written_before(service.engine, "a", {**TABLE, "dead_letter_topic": "errors"})
    written_before(service.engine, "b", among)
    client.put_layer("a", "oncall", {"desired_state": "stopped"}, if_match=0)
    noted(service.engine)
    client.put_layer("b", "oncall", {"desired_state": "stopped"}, if_match=0)
    client.plan("b", {"inputs": {"flights": {"topic": "others"}}})
    client.put_layer("b", "oncall", {"inputs": {"flights": {"topic": "others"}}}, if_match=1)
    with pytest.raises(InvalidConfig, match="malformed records of the job a"):
        client.put_job("c", among)


def test_a_table_of_a_job_of_the_release_before_is_not_taken(client: JobClient, service: RunningJobService) -> None:
    """Not by a new job, nor by another one of that release that moves."""
    written_before(service.engine, "a", TABLE)
    written_before(service.engine, "b", {**TABLE, "output": {"type": "delta", "path": "/elsewhere"}})
    for ask in (
        lambda: client.plan("c", TABLE),
        lambda: client.put_job("c", TABLE),
        lambda: client.put_job("b", TABLE),
    ):
        with pytest.raises(InvalidConfig, match="the job a writes to /out/hello"):
            ask()
    assert [(flow.job, flow.folder) for flow in noted(service.engine)] == [("a", "/out/hello"), ("b", "/elsewhere")]


def test_what_a_job_service_of_the_release_before_changes_is_known(
    client: JobClient, service: RunningJobService
) -> None:
    """During an upgrade. 1. It changes a row, and leaves what it does not know. 2. It changes a topic that is in no row
    of its. 3. What it left no trace of is read from the configuration, and noted."""
    client.put_job("a", TABLE)
    written_before(service.engine, "a", TABLE | {"labels": {"x": "y"}})
    with pytest.raises(InvalidConfig, match="the job a writes to /out/hello"):
        client.put_job("b", TABLE)
    client.put_job("d", CONFIG)
    write_layer(service.engine, "d", CONFIG | {"dead_letter_topic": "bad"})
    client.put_job("e", {**CONFIG, "output": {"type": "kafka", "topic": "d.dead-letters"}})
    with pytest.raises(InvalidConfig, match="malformed records of the job d"):
        client.put_job("f", {**CONFIG, "output": {"type": "kafka", "topic": "bad"}})
    assert noted(service.engine) == [
        flow_of("a", TABLE),
        flow_of("d", CONFIG | {"dead_letter_topic": "bad"}),
        flow_of("e", {**CONFIG, "output": {"type": "kafka", "topic": "d.dead-letters"}}),
    ]
