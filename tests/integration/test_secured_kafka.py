"""A Kafka that asks who is there: logins, refused logins, and rights that are missing, on a real broker."""

from __future__ import annotations

import dataclasses
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import psutil
import pytest
from confluent_kafka.admin import AclOperation, ResourceType

from penstock.config.model import JobConfig
from penstock.control.clock import SystemClock
from penstock.control.errors import Unavailable
from penstock.control.process import wait_until
from penstock.kafka.access import Kafka
from penstock.local import records, topics
from penstock.model.causes import CauseKind
from penstock.spark.inputs.topic_checks import input_topics
from penstock.spark.inputs.watch import InputWatch
from penstock.spark.parts import found_without_spark
from penstock.spark.settings import SparkSettings
from penstock.spark.topics import Topic, described, listed
from penstock.tasks.analysis import AnalysisReport, AnalysisRequest
from penstock.tasks.redistribution import Layout, SealRequest
from services.job_service.causes.errors import kind_of
from services.job_service.probes import Probes
from tests.support.kafka.secured import Authority, SecuredKafka, settings_of
from tests.support.kafka.tokens import token_server
from tests.support.spark.hosts import (
    REPLY_SECONDS,
    Supervisor,
    job_config,
    jvm_pid,
    run_host_task,
    running_host,
    settings_for,
    task_spec,
)

PASSWORD = "password-of-the-hosts"
READ, WRITE, DESCRIBE, CREATE = (
    AclOperation.READ,
    AclOperation.WRITE,
    AclOperation.DESCRIBE,
    AclOperation.CREATE,
)


@pytest.fixture(scope="module")
def broker(servers_dir: Path) -> Iterator[SecuredKafka]:
    """Users `bob` (SCRAM) and `alice` (PLAIN). `orders` may be read by bob; `others` by nobody."""
    with SecuredKafka(servers_dir / "secured", {"alice": PASSWORD}) as server:
        server.add_user("bob", PASSWORD)
        for name in ("orders", "others"):
            server.make_topic(name, 2)
        server.allow("bob", ResourceType.TOPIC, "orders", READ, DESCRIBE)
        yield server


@pytest.fixture(scope="module")
def tokens(broker: SecuredKafka) -> Iterator[str]:
    """Where the client `dora` gets tokens."""
    with token_server(broker.tokens, "dora", PASSWORD) as url:
        yield url


def test_who_is_let_in_has_the_rights_of_its_acls(broker: SecuredKafka, tokens: str, tmp_path: Path) -> None:
    """1. By SCRAM, PLAIN, certificate, token. 2. A job whose topic may not be read is refused. 3. The CLI's way in."""
    bob = broker.as_user("bob", PASSWORD)
    seen = described(bob, ["orders", "others"])
    assert seen["orders"]._replace(id=None) == Topic(2, may_read=True, may_write=False)
    assert seen["others"] == Topic(None, may_read=False, may_write=False)
    for other in (
        broker.as_user("alice", PASSWORD, is_scram=False),
        broker.by_certificate("carol"),
        broker.by_token("dora", PASSWORD, tokens),
    ):
        assert described(other, ["orders"])["orders"] == Topic(None, may_read=False, may_write=False)
    assert described(broker.by_administrator, ["gone"])["gone"].is_missing

    config = job_config("others", 2, {"type": "kafka", "topic": "orders"})
    settings = SparkSettings(checkpoint_root="", kafka_bootstrap=broker.bootstrap, **settings_of(bob, tmp_path))
    problems = found_without_spark(config, True, settings=settings).problems
    assert [(each.field, each.rule) for each in problems] == [("inputs.events.topic", "topic_readable")]
    assert "may not read the topic others: grant it READ" in problems[0].detail
    assert listed(bob) == {"orders"}
    pattern = {"topic": None, "topic_pattern": "or.*|others"}
    several = job_config("x", 2, {"type": "files", "path": "/out"}, source=pattern)
    assert input_topics(several, settings.cluster).keys() == {"orders"}

    assert (
        records.produce(broker.by_administrator, "orders", 2, io.StringIO('{"n": 1}\n{"n": 2}\n'), records.json_lines())
        == 2
    )
    assert [(each.name, each.partitions) for each in topics.list_topics(bob)] == [("orders", 2)]
    assert Probes("", [bob], 60.0).buses()[None] == Probes("", [broker.by_administrator], 60.0).buses()[None]._replace(
        address=broker.bootstrap
    )


def test_a_topic_that_a_running_task_may_not_read_any_more_is_told(broker: SecuredKafka) -> None:
    """1. It may be read. 2. READ is revoked, and then DESCRIBE, too: the task has a problem. 3. The login is refused:
    that says nothing about the topic. 4. Both are granted again: all is well."""
    broker.make_topic("watched", 2)
    broker.allow("bob", ResourceType.TOPIC, "watched", READ, DESCRIBE)
    logins = [broker.as_user("bob", PASSWORD)]
    watch = InputWatch(cast(Any, None), lambda _: logins[-1], SystemClock())
    task = task_spec("watched", job_config("watched", 2, {"type": "files", "path": "/out"}))

    def told() -> str | None:
        return watch.check([task])[task.task_id].get("input_unreadable")

    wait_until(lambda: told() is None, 20, "the rights to count")
    broker.revoke("bob", ResourceType.TOPIC, "watched", READ)
    why = "inputs.events: the hosts' account may not read the topic watched: grant it READ"
    wait_until(lambda: told() == why, 20, "READ to be gone")
    broker.revoke("bob", ResourceType.TOPIC, "watched", DESCRIBE)
    wait_until(lambda: described(logins[0], ["watched"])["watched"] == Topic(None, False, False), 20, "DESCRIBE to go")
    assert told() == why
    logins.append(broker.as_user("bob", "another-password"))
    assert watch.check([task]) == {}
    logins.pop()
    broker.allow("bob", ResourceType.TOPIC, "watched", READ, DESCRIBE)
    wait_until(lambda: told() is None, 20, "both to be granted again")


@pytest.mark.long
def test_a_refused_login_is_told_as_such(broker: SecuredKafka, tokens: str) -> None:
    """1. A wrong password, an unknown user, a certificate of another authority and none: soon, and by who is refused.
    2. It has a kind of its own for people."""
    stranger = broker.by_certificate("carol")
    certificate, key = Authority().issue("admin")
    refused = {
        "the user bob (SCRAM-SHA-512)": broker.as_user("bob", "another-password"),
        "the user eve (PLAIN)": broker.as_user("eve", PASSWORD, is_scram=False),
        "the user dora (OAUTHBEARER)": broker.by_token("dora", "another-password", tokens),
        "the certificate of": dataclasses.replace(stranger, certificate=certificate, key=key),
        "a client without a login": Kafka(broker.certificates, "SSL", authorities=broker.authority.certificate),
    }
    for who, kafka in refused.items():
        asks = (lambda: described(kafka, ["orders"]), lambda: listed(kafka), lambda: topics.list_topics(kafka))  # noqa: B023
        for ask in asks:
            with pytest.raises(Unavailable, match=r"\Akafka refuses ") as caught:
                ask()
            assert caught.value.detail.startswith(f"kafka refuses {who}")
            assert "another-password" not in caught.value.detail
            assert kind_of(caught.value.detail) is CauseKind.KAFKA_LOGIN
    probe = Probes("", [broker.as_user("bob", "another-password")], 60.0).buses()[None]
    assert "kafka refuses the user bob" in str(probe.error)


@pytest.mark.long
@pytest.mark.parametrize("login", ["password", "plain", "certificate", "token"])
def test_a_job_runs_with_only_the_rights_that_the_readme_names(
    broker: SecuredKafka, tokens: str, tmp_path: Path, login: str
) -> None:
    """1. Rows go from topic to topic in transactions, a malformed one to the dead letters. 2. Nothing that others can
    read has what logs in. 3. What a rescale does to the output. 4. A task whose topics may not be read is broken, and a
    `plan` says why. 5. Once the login is refused a task cannot start, and both say so."""
    account, kafka = {
        "password": ("bob", broker.as_user("bob", PASSWORD)),
        "plain": ("alice", broker.as_user("alice", PASSWORD, is_scram=False)),
        "certificate": ("CN=carol", broker.by_certificate("carol")),
        "token": ("dora", broker.by_token("dora", PASSWORD, tokens)),
    }[login]
    given = settings_of(kafka, tmp_path)
    _grant(broker, account, login)
    rows = io.StringIO("".join(f'{{"n": {n}}}\n' for n in range(20)) + '{"n": "no number"}\n')
    records.produce(broker.by_administrator, f"{login}-in", 2, rows, records.json_lines())
    output = {"type": "kafka", "topic": f"{login}-out"}
    spec = task_spec(login, job_config(f"{login}-in", 2, output, source={"malformed_limit": 1.0}))
    with running_host(login, settings_for(tmp_path, kafka.bootstrap, **given), tmp_path) as host:
        reply = host.start(spec)
        assert reply.ok, reply.error
        host.wait_for_records(spec.task_id, 21)
        assert host.stop(spec.task_id, finish_pending=True).ok
        assert sorted(each["n"] for each in _values(broker, f"{login}-out", 20)) == list(range(20))
        assert _values(broker, f"{login}.dead-letters", 1) == [{"n": "no number"}]

        processes = [psutil.Process(host.host.pid), psutil.Process(jvm_pid(host))]
        shown = json.dumps([[each.cmdline(), each.environ()] for each in processes]) + host.log_path.read_text()
        assert not [each for value in kafka.secret_values() for each in value.split("\n") if each and each in shown]

        layout = Layout(generation=1, config=spec.config, ranges=(spec.key_groups,))
        sealed = host.host.send(run_host_task(SealRequest(job=login, layout=layout))).result(REPLY_SECONDS)
        assert sealed.ok, sealed.error

        unread = job_config("others", 2, output | {"topic": f"{login}-written"})
        denied = host.start(task_spec("denied", unread))
        assert (denied.ok, denied.error_kind) == (False, "broken_task")
        assert "may not read the topic others: grant it READ" in str(denied.error)
        assert [(each.field, each.rule) for each in _analysed(host, unread, 1).problems] == [
            ("inputs.events.topic", "topic_readable"),
            ("output.topic", "topic_writable"),
        ]
        assert not _analysed(host, spec.config, 2).problems

        settings_of(_refused(broker, kafka), tmp_path)
        refused = host.start(task_spec("refused", spec.config))
        assert (refused.ok, refused.error_kind) == (False, "retryable")
        told = f"kafka refuses {kafka.login()} at {kafka}"
        assert str(refused.error).startswith(told)
        report = _analysed(host, spec.config, 3)
        assert not report.problems
        assert all(each.startswith(told) for each in report.unchecked), report.unchecked
        assert {each.rule for each in report.logins} == {"kafka_login"}
        assert report.unchecked


def _analysed(host: Supervisor, config: JobConfig, number: int) -> AnalysisReport:
    """What a `plan` of the job says."""
    request = run_host_task(AnalysisRequest(job="planned", number=number, config=config))
    return AnalysisReport.model_validate(host.host.send(request).result(REPLY_SECONDS).result)


def _grant(broker: SecuredKafka, account: str, login: str) -> None:
    """What the README of `penstock.kafka` says, on topics of this login, and a topic that may only be written."""
    for name, rights in (("in", (READ,)), ("out", (READ, WRITE)), ("written", (WRITE,))):
        broker.make_topic(f"{login}-{name}", 2)
        broker.allow(account, ResourceType.TOPIC, f"{login}-{name}", DESCRIBE, *rights)
    broker.allow(account, ResourceType.TOPIC, f"{login}-out.penstock-marks", CREATE)
    broker.allow(account, ResourceType.TOPIC, f"{login}.dead-letters", WRITE, DESCRIBE, CREATE)
    broker.allow(account, ResourceType.TRANSACTIONAL_ID, "penstock-", WRITE, DESCRIBE)
    broker.allow(account, ResourceType.GROUP, "penstock-", READ, DESCRIBE)


def _refused(broker: SecuredKafka, kafka: Kafka) -> Kafka:
    """The same login with a wrong password, or a certificate of another authority."""
    if kafka.password is not None:
        return dataclasses.replace(kafka, password="another-password")
    certificate, key = Authority().issue("carol")
    return dataclasses.replace(kafka, certificate=certificate, key=key)


def _values(broker: SecuredKafka, topic: str, count: int) -> list[dict[str, object]]:
    found = records.consume(broker.by_administrator, topic, from_beginning=True, count=count, idle_seconds=10)
    return [json.loads(each.value() or b"") for each in found]
