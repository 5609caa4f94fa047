"""The example `secured`: the commands of its README on a broker with logins and ACLs, and what its job writes."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AclOperation, ResourceType

from penstock.control.process import wait_until
from penstock.kafka.access import CLUSTERS
from penstock.local.stack import LocalStack
from tests.e2e.conftest import PERIODS
from tests.support.cli.documents import blocks
from tests.support.cli.shell import Shell
from tests.support.cli.terminal import Terminal
from tests.support.kafka.avro import framed, number, text
from tests.support.kafka.registry import PASSWORD, USERNAME, SmallRegistry, small_registry
from tests.support.kafka.secured import SecuredKafka, settings_of
from tests.support.spark.redistribution import records_of
from tests.tidy.source import REPOSITORY

EXAMPLE = REPOSITORY / "deploy" / "examples" / "secured"
JOB = json.loads((EXAMPLE / "job.json").read_text())
SOURCE = JOB["inputs"]["payments"]
SUBJECT, OUTPUT = "payments-value", JOB["output"]["topic"]
LARGE, WAIT_S = 1_000_000, 120.0
READ, WRITE, DESCRIBE, CREATE = AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE, AclOperation.CREATE
LETTERS = "large-payments.dead-letters"


@pytest.fixture
def registry() -> Iterator[SmallRegistry]:
    with small_registry() as found:
        found.add(SUBJECT, SOURCE["value_schema"])
        yield found


@pytest.fixture
def broker(servers_dir: Path) -> Iterator[SecuredKafka]:
    """The user of the README may do what that of `penstock.kafka` names; by certificate he may write the output."""
    with SecuredKafka(servers_dir / "example-secured", {}) as server:
        server.add_user(USERNAME, PASSWORD)
        server.make_topic("payments", SOURCE["key_groups"])
        server.allow(USERNAME, ResourceType.TOPIC, "payments", READ, DESCRIBE)
        server.allow(USERNAME, ResourceType.TOPIC, LETTERS, WRITE, DESCRIBE, CREATE)
        for principal in (USERNAME, f"CN={USERNAME}"):
            server.allow(principal, ResourceType.GROUP, "penstock-", READ, DESCRIBE)
            server.allow(principal, ResourceType.TRANSACTIONAL_ID, "penstock-", WRITE, DESCRIBE)
        yield server


@pytest.fixture
def settings(broker: SecuredKafka, registry: SmallRegistry, tmp_path: Path) -> dict[str, str]:
    """Those of the README, with this broker, this registry and files of their own in place of its."""
    page = (EXAMPLE / "README.md").read_text().split("```sh\n")[1].split("```")[0]
    shown = dict(line.split("=", 1) for line in shlex.split(page))
    login = {
        name: str(value) for name, value in settings_of(broker.by_certificate(USERNAME), tmp_path).items() if value
    }
    analytics = {name.removeprefix("kafka_"): value for name, value in login.items()}
    (named,) = json.loads(shown[CLUSTERS])
    (password := tmp_path / "password").write_text(PASSWORD)
    here = {
        "PENSTOCK_KAFKA_BOOTSTRAP": broker.bootstrap,
        "PENSTOCK_KAFKA_SASL_PASSWORD_FILE": str(password),
        "PENSTOCK_KAFKA_SSL_CA": login["kafka_ssl_ca"],
        CLUSTERS: json.dumps({named: {"bootstrap": broker.certificates, **analytics}}),
        "PENSTOCK_SCHEMA_REGISTRY_URL": registry.url,
        "PENSTOCK_SCHEMA_REGISTRY_PASSWORD_FILE": str(password),
    }
    assert here.keys() <= shown.keys()
    return shown | here


@pytest.fixture
def terminal(
    broker: SecuredKafka,
    settings: dict[str, str],
    servers_dir: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Iterator[Terminal]:
    """A terminal beside a stack with these settings, which has no Kafka of its own."""
    environment = {name: str(value) for name, value in PERIODS.items()} | settings
    (folder := servers_dir / "secured-stack").mkdir()
    (beside := tmp_path / "beside").mkdir()
    with LocalStack(folder, task_managers=1, free_ports=True, environment=environment, kafka=broker.bootstrap) as stack:
        found = Terminal(stack, beside, Shell(monkeypatch, capsys), monkeypatch)
        for name, value in settings.items():
            monkeypatch.setenv(name, value)
        yield found


def payment(account: str, cents: int) -> bytes:
    return framed(1, text(account), number(cents), text("EUR"))


def written_payment(account: str, cents: int) -> bytes:
    """Columns of a query may be null: the second member of a union each time."""
    return framed(2, *(number(1) + value for value in (text(account), number(cents), text("EUR"))))


def send(broker: SecuredKafka, *values: bytes) -> None:
    producer = Producer(broker.by_administrator.client_settings())
    for value in values:
        producer.produce("payments", value)
    assert producer.flush(30) == 0


@pytest.mark.long
def test_the_example_runs_on_a_broker_that_asks_who_is_there(
    terminal: Terminal, broker: SecuredKafka, registry: SmallRegistry
) -> None:
    """1. Without the right to write, the plan says which one is missing and how to grant it. 2. The job runs once it is
    granted, and its schema is in the registry. 3. It has written the large payments once each, and no other. 4. No
    password is in what the commands print."""
    begin, end = blocks(EXAMPLE / "README.md")
    doctor, topics, plan, apply = begin
    said = [terminal(doctor), terminal(topics)]
    assert "payments" in said[1]
    denied = terminal.failing(plan)
    assert OUTPUT in denied
    assert "grant" in denied

    broker.allow(f"CN={USERNAME}", ResourceType.TOPIC, OUTPUT, READ, WRITE, DESCRIBE, CREATE)
    said += [denied, terminal(plan), terminal(apply)]
    assert f"{OUTPUT}-value" in registry.subjects

    def has_begun() -> bool:
        # It starts at the end of the topic.
        send(broker, payment("probe", LARGE))
        return bool(written(broker))

    wait_until(has_begun, WAIT_S, "the first row")
    send(broker, *(payment(f"a{n}", LARGE - 5 + n) for n in range(10)))
    wanted = [written_payment(f"a{n}", LARGE - 5 + n) for n in range(5, 10)]
    wait_until(lambda: len(of_others(broker)) >= len(wanted), WAIT_S, "the large payments")
    said += [terminal(line) for line in end]
    assert of_others(broker) == sorted(wanted)
    assert not [each for each in said if PASSWORD in each]


def written(broker: SecuredKafka) -> list[bytes]:
    return [message.value() for message in records_of(broker.by_administrator, OUTPUT)]


def of_others(broker: SecuredKafka) -> list[bytes]:
    """Without the probes."""
    return sorted(value for value in written(broker) if b"probe" not in value)
