"""Plans and writes ask a container what Spark says; the container's answers are given here, the rest is real."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from fastapi import FastAPI
from sqlalchemy import text

from penstock.config.problems import Problem
from penstock.config.validate import check_merged
from penstock.control.errors import InvalidConfig, Unavailable, VersionConflict
from penstock.store.engine import transaction
from penstock.tasks.analysis import AnalysisReport, Operator
from penstock.wire.analyses import AnalysisCall
from penstock.wire.app import create_app
from penstock.wire.job_client import JobClient
from penstock.wire.jobs import PlanView
from services.job_service import analyses
from tests.support.cli.shell import Shell
from tests.support.control.serving import serving
from tests.support.job_service.service import CONFIG, RunningJobService
from tests.support.job_service.stored import commit

WRONG = Problem("query.sql", "unresolved_column", "query.sql: `orgin` cannot be resolved. Did you mean `origin`?")
NO_SECRET = Problem("secrets", "secret_missing", "secrets: the container has no secret token")
NO_TOPIC = Problem("inputs.flights.topic", "topic_exists", "inputs.flights: there is no topic flights")
STATE = Operator(operation="GROUP BY", inputs=("flights",), by=("dest",), colocated=True)
RIGHT = AnalysisReport(columns={"dest": "string"}, operators=(STATE,))


@dataclass
class Container:
    """What it answers, None when no host is ready; whether one `starts`; what it was asked; and what happens while it
    thinks."""

    report: AnalysisReport | None = RIGHT
    starts: bool = False
    meanwhile: Callable[[], object] = bool
    asked: list[AnalysisCall] = field(default_factory=list)

    def app(self) -> FastAPI:
        """The one route of a Task Manager that counts here."""
        app = create_app("task_manager", ready=dict)

        @app.post("/v1/analyses")
        def analyse(call: AnalysisCall) -> AnalysisReport:
            self.asked.append(call)
            self.meanwhile()
            if self.report is None or (self.starts and not call.await_host):
                raise Unavailable("no host with the job's package is ready")
            return self.report

        return app


@dataclass
class Clock:
    """That of the Job Service while it asks."""

    now: float = 0.0

    def pass_a_minute(self) -> None:
        self.now += 60.0


@pytest.fixture
def container(service: RunningJobService) -> Iterator[Container]:
    """A live container, and one that is listed but does not answer."""
    container = Container()
    with serving(container.app()) as url:
        statement = text(
            "INSERT INTO containers (name, incarnation, url, region, cpu_cores, memory_bytes, disk_bytes, state)"
            " VALUES (:name, 'i', :url, 'r', 1, 1, 1, 'live')"
        )
        with transaction(service.engine) as connection:
            for name, where in (("c0", "http://127.0.0.1:1"), ("c1", url)):
                connection.execute(statement, {"name": name, "url": where})
        yield container


def refused(client: JobClient, config: Any) -> InvalidConfig:
    with pytest.raises(InvalidConfig) as error:
        client.put_job("etl", config)
    return error.value


def test_a_plan_of_a_job_that_does_not_exist_says_all(client: JobClient, container: Container) -> None:
    planned = client.plan("etl", CONFIG)
    assert (planned.job, planned.layer, planned.version, planned.kind) == ("etl", "base", 0, "none")
    assert (planned.allowed, planned.steps, planned.tasks_touched) == (True, ["commit", "start_tasks"], ["etl/0"])
    assert planned.analysis is not None
    assert (planned.analysis.verified, planned.analysis.columns) == (True, {"dest": "string"})
    assert planned.analysis.operators == [STATE.model_dump(mode="json")]
    (asked,) = container.asked
    assert (asked.start_host, asked.request.config.query.sql) == (True, CONFIG["query"]["sql"])
    assert list(client.list_jobs()) == []


def test_a_plan_tells_every_problem_and_is_not_allowed(client: JobClient, container: Container) -> None:
    container.report = AnalysisReport(problems=(WRONG, NO_TOPIC))
    planned = client.plan("etl", CONFIG)
    assert not planned.allowed
    assert planned.analysis is not None
    assert [problem["rule"] for problem in planned.analysis.problems] == ["unresolved_column", "topic_exists"]


def test_a_plan_without_a_host_says_why_nothing_is_verified(client: JobClient, container: Container) -> None:
    container.report = None
    planned = client.plan("etl", CONFIG)
    assert planned.allowed
    assert planned.analysis is not None
    assert (planned.analysis.verified, "no host" in planned.analysis.why) == (False, True)
    assert (planned.analysis.made, planned.analysis.late) == (False, False), (
        "it was told at once: nobody need ask again"
    )


def test_a_plan_that_no_host_answers_in_time_is_asked_again_and_has_its_own_exit_code(
    client: JobClient, container: Container, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """1. The host starts, for longer than the Job Service waits. 2. The command asks a second time, and it is ready.
    3. One that is never ready: the plan is allowed, and the exit code is not 0. 4. Nobody answers at all."""
    clock = Clock()
    monkeypatch.setattr(analyses, "monotonic", lambda: clock.now)
    container.report, container.meanwhile = None, clock.pass_a_minute
    late = client.plan("etl", CONFIG).analysis
    assert late is not None
    assert (late.verified, late.made, late.late) == (False, False, True)
    asked = len(container.asked)

    def soon_ready() -> None:
        clock.pass_a_minute()
        container.report = RIGHT if len(container.asked) > asked + 1 else None

    container.meanwhile = soon_ready
    said = shell("plan", "etl", "base", json.dumps(CONFIG), "--within", "1m")
    assert (said.code, "result: dest string" in said.out) == (0, True)
    assert "Asking again for up to 1m" in said.err
    container.report, container.meanwhile = None, clock.pass_a_minute
    never = shell("plan", "etl", "base", json.dumps(CONFIG), "--within", "1s")
    assert never.code == 5
    assert "not verified by Spark" in never.out
    assert "cold host" in never.out
    assert shell("jobs", "apply", "etl", json.dumps(CONFIG), "--dry-run", "--timeout", "1s").code == 5
    container.meanwhile = bool
    nobody = shell("plan", "etl", "base", json.dumps(CONFIG))
    assert (nobody.code, "`penstock status`" in nobody.out, "sking again" in nobody.err) == (5, True, False)


def test_a_plan_of_an_unknown_job_still_obeys_the_rules(client: JobClient, container: Container) -> None:
    with pytest.raises(InvalidConfig) as error:
        client.plan("etl", {"priority": 2})
    assert error.value.rule == "required"
    assert container.asked == []


def test_a_write_is_refused_by_what_spark_says(client: JobClient, container: Container) -> None:
    container.report = AnalysisReport(problems=(WRONG,))
    error = refused(client, CONFIG)
    assert (error.field, error.rule, error.detail) == tuple(WRONG)
    assert list(client.list_jobs()) == []
    assert client.put_job("etl", CONFIG, verify=False).verified is False
    assert len(container.asked) == 1


def test_what_is_found_and_refuses_nothing_is_a_note(client: JobClient, container: Container) -> None:
    """Of a plan, and of the write."""
    container.report = AnalysisReport(notes=("vat is null in all",))
    planned = client.plan("etl", CONFIG)
    assert (planned.allowed, planned.notes) == (True, ["vat is null in all"])
    made = client.put_job("etl", CONFIG)
    assert (made.verified, made.notes) == (True, ["vat is null in all"])


def test_a_write_goes_on_without_a_host(client: JobClient, container: Container) -> None:
    """And says why it is not verified. A plan without a change then asks for the job as it is."""
    container.report = None
    made = client.put_job("etl", CONFIG)
    assert (made.verified, "no host with the job's package is ready" in made.why) == (False, True)
    assert [(call.start_host, call.await_host) for call in container.asked] == [(False, False), (False, True)]
    container.report = AnalysisReport(problems=(WRONG,))
    assert not client.plan("etl", {}).allowed


def test_a_write_goes_on_when_a_check_could_not_be_made(client: JobClient, container: Container) -> None:
    container.report = AnalysisReport(unchecked=("kafka cannot be reached",))
    made = client.put_job("etl", CONFIG)
    assert (made.verified, made.why) == (False, "kafka cannot be reached")


def test_a_job_that_has_begun_to_read_is_not_told_that_its_beginning_is_gone(
    client: JobClient, container: Container, service: RunningJobService
) -> None:
    """1. A new job is refused. 2. One that has run is not: it does not begin there again."""
    gone = Problem("inputs.flights.starting_position", "offset_kept", "inputs.flights.starting_position is 0, but")
    container.report = AnalysisReport(problems=(gone,))
    assert refused(client, CONFIG).rule == "offset_kept"
    client.put_job("etl", CONFIG, verify=False)
    assert not client.plan("etl", {}).allowed
    commit(service, check_merged(dict(CONFIG)).model_dump(mode="json"), 1)
    assert client.plan("etl", {}).allowed


def test_a_login_that_kafka_refuses_is_told_by_a_plan_and_refuses_no_write(
    client: JobClient, container: Container, shell: Shell
) -> None:
    """1. The plan tells it with field and rule, and the write would be done: the exit code is 0. 2. So it is."""
    text = "kafka refuses the user bob at kafka:9092"
    login = Problem("inputs", "kafka_login", f"inputs: {text}")
    no_host = "no host with the job's package is ready"
    container.report = AnalysisReport(logins=(login,), unchecked=(text, no_host))
    planned = client.plan("etl", CONFIG, layer="base", action="put")
    assert planned.allowed
    assert planned.analysis is not None
    assert (planned.analysis.problems, planned.analysis.verified) == ([login._asdict()], False)
    assert planned.analysis.why == no_host
    made = client.put_job("etl", CONFIG)
    assert (made.verified, made.why) == (False, f"{text}; {no_host}")
    said = shell("plan", "etl").ok().splitlines()
    assert said[-2:] == [f"PROBLEM inputs (kafka_login): inputs: {text}", f"not verified by Spark: {no_host}"]
    assert "NOT ALLOWED" not in "".join(said)


def test_a_login_that_a_warm_host_cannot_make_is_all_that_is_not_verified(
    client: JobClient, container: Container, shell: Shell
) -> None:
    """All checks but those of Kafka were made, so nothing is left to say besides the problem."""
    text = "kafka refuses the user bob at kafka:9092"
    login = Problem("inputs", "kafka_login", f"inputs: {text}")
    container.report = AnalysisReport(logins=(login,), unchecked=(text,), columns={"n": "bigint"})
    made = client.put_job("etl", CONFIG)
    assert (made.verified, made.why) == (False, text)
    said = shell("plan", "etl").ok().splitlines()
    assert said[-3:] == [
        f"PROBLEM inputs (kafka_login): inputs: {text}",
        "result: n bigint",
        "not verified by Spark: a login is refused",
    ]


@pytest.mark.parametrize(
    ("lacks", "unchecked"),
    [
        (NO_SECRET, ("no host with the job's package is ready",)),
        (Problem("output.cluster", "known_cluster", "output.cluster: there is no Kafka cluster eu"), ()),
    ],
)
def test_what_only_some_containers_lack_is_no_problem(
    client: JobClient, container: Container, service: RunningJobService, lacks: Problem, unchecked: tuple[str, ...]
) -> None:
    """1. The first that is asked has no secret and no host, or does not know a Kafka cluster yet; the next one makes a
    whole analysis. 2. No container makes one: what it lacks is told."""
    container.report = AnalysisReport(problems=(lacks,), unchecked=unchecked)
    other = Container()
    with serving(other.app()) as url:
        with transaction(service.engine) as connection:
            connection.execute(text("UPDATE containers SET url = :url WHERE name = 'c0'"), {"url": url})
        made = client.put_job("etl", CONFIG)
        assert (made.verified, len(container.asked), len(other.asked)) == (True, 1, 1)
        other.report = None
        client.delete_job("etl")
        with pytest.raises(InvalidConfig, match=lacks.detail):
            client.put_job("etl2", CONFIG)


def test_a_login_that_one_container_cannot_make_hides_no_problem_of_another(
    client: JobClient, container: Container, service: RunningJobService
) -> None:
    """A write asks no second container about a login."""
    login = Problem("inputs", "kafka_login", "inputs: Kafka refuses the login")
    container.report = AnalysisReport(logins=(login,), unchecked=("no host is ready",))
    other = Container()
    other.report = AnalysisReport(
        problems=(Problem("query.sql", "analysis", "query.sql: no column x"),), unchecked=("x",)
    )
    with serving(other.app()) as url:
        with transaction(service.engine) as connection:
            connection.execute(text("UPDATE containers SET url = :url WHERE name = 'c0'"), {"url": url})
        planned = client.plan("etl", CONFIG)
        assert planned.analysis is not None
        assert [each["rule"] for each in planned.analysis.problems] == ["analysis"]
        assert not planned.allowed
        assert (len(container.asked), len(other.asked)) == (1, 1)
        client.put_job("etl", CONFIG)
        assert (len(container.asked), len(other.asked)) == (2, 1)


def test_nothing_is_locked_while_a_container_is_asked(client: JobClient, container: Container) -> None:
    """1. Somebody writes another layer of the job meanwhile: both writes count. 2. Somebody writes the same layer: the
    version that was read is not the present one any more, and the write is refused."""
    client.put_job("etl", CONFIG)
    container.meanwhile = lambda: client.patch_layer("etl", "scaler", {"priority": 3}, if_match=0)
    client.patch_layer("etl", "oncall", {"args": {"x": 1}}, if_match=0)
    config = client.get_job("etl").config
    assert (config["priority"], config["args"]) == (3, {"x": 1})
    container.meanwhile = lambda: client.patch_layer("etl", "oncall", {"priority": 4}, if_match=1)
    with pytest.raises(VersionConflict):
        client.patch_layer("etl", "oncall", {"args": {"x": 2}}, if_match=1)
    config = client.get_job("etl").config
    assert (config["priority"], config["args"]) == (4, {"x": 1})


def test_only_what_spark_looks_at_is_asked(client: JobClient, container: Container) -> None:
    """1. A job is made and verified. 2. Priority and fewer limits are not its business. 3. A query is. 4. So is a
    second task, and no third."""
    made = client.put_job("etl", CONFIG)
    assert (made.verified, len(container.asked)) == (True, 1)
    patches = (
        ({"priority": 2}, None),
        ({"args": {"x": 1}}, True),
        ({"task_count": 2}, True),
        ({"task_count": 3}, None),
    )
    for patch, verified in patches:
        version = client.get_layer("etl", "oncall").version
        assert client.patch_layer("etl", "oncall", patch, if_match=version).verified is verified
    assert len(container.asked) == 3
    assert client.plan("etl", {"priority": 3}).analysis is None
    assert len(container.asked) == 3


def test_a_topic_that_another_job_writes_may_come_later(client: JobClient, container: Container) -> None:
    container.report = AnalysisReport(problems=(NO_TOPIC,))
    assert refused(client, CONFIG).rule == "topic_exists"
    source = {**CONFIG["inputs"]["flights"], "topic": "raw_flights"}
    writer = {**CONFIG, "inputs": {"flights": source}, "output": {"type": "kafka", "topic": "flights"}}
    client.put_job("writer", writer, verify=False)
    assert client.put_job("etl", CONFIG).verified is True


def test_a_write_waits_for_a_host_that_starts(client: JobClient, container: Container) -> None:
    """1. All hosts have ended, and one starts. 2. A write is asked of a host that is ready, then of that one. 3. What
    it finds refuses the write."""
    container.report, container.starts = AnalysisReport(problems=(WRONG,)), True
    assert refused(client, CONFIG).rule == "unresolved_column"
    assert [(call.start_host, call.await_host) for call in container.asked] == [(False, False), (False, True)]
    assert 0 < container.asked[1].wait_seconds <= analyses.START_SECONDS
    assert list(client.list_jobs()) == []


def test_the_same_call_gets_the_same_answer_whatever_spark_says_later(client: JobClient, container: Container) -> None:
    first = client.put_job("etl", CONFIG, idempotency_key="k")
    container.report = AnalysisReport(problems=(WRONG,))
    assert client.put_job("etl", CONFIG, idempotency_key="k") == first


def test_the_commands_tell_it(shell: Shell, container: Container) -> None:
    config = (
        '{"query": {"sql": "SELECT 1 AS x FROM f"}, "inputs": {"f": {"topic": "f", "key_groups": 2, "format": "raw"}}, '
    )
    config += '"output": {"type": "kafka", "topic": "g"}}'
    said = " ".join(shell("plan", "etl", "base", config).ok().split())
    assert "state: GROUP BY by (dest) over flights; rows with the same key are in one task" in said
    assert "result: dest string" in said
    container.report = AnalysisReport(problems=(WRONG,))
    planned = shell("plan", "etl", "base", config)
    assert (planned.code, "PROBLEM query.sql (unresolved_column)" in planned.out) == (1, True)
    assert "Did you mean" in shell("jobs", "apply", "etl", config).refusal()
    applied = shell("jobs", "apply", "etl", config, "--no-verify").ok()
    assert "accepted, not verified: verify=false was asked for; `penstock plan etl` checks it" in applied
    assert "the job is new: its tasks check the query when they start" in applied
    assert "keeps its query" not in applied
    applied = shell("jobs", "apply", "etl", config.replace('"g"', '"h"'), "--no-verify").ok()
    assert "keeps its query until a host has checked the new one; see `penstock why etl`" in applied
    assert shell("plan", "etl").code == 1
    assert (
        PlanView.model_validate_json(shell("plan", "etl", "oncall", '{"priority": 1}', "--json").ok()).analysis is None
    )
