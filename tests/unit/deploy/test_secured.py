"""A secured Kafka, a schema registry and S3: what Compose, the chart and the units hand to the processes."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.kafka.access import Kafka
from penstock.kafka.settings import KafkaSettings
from penstock.local import jars
from tests.support.deploy import described, units
from tests.support.deploy.described import SECURED, Process
from tests.support.deploy.settings import known

_ROOT = Path(__file__).parents[3]
Describe = Callable[[], tuple[Process, ...]]
_OPEN: list[Describe] = [described.compose, described.systemd]
_SECURED: list[Describe] = [described.compose_secured, described.helm, described.systemd_secured]
_AWS = {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION"}
_CERTIFICATE = "-----BEGIN CERTIFICATE-----\n"


def kafka_of(process: Process, folder: Path) -> Kafka:
    """How the process reaches Kafka, with a file at each path that its variables name."""
    fields = {
        name.removeprefix("PENSTOCK_").lower(): value
        for name, value in process.environment.items()
        if name.startswith(("PENSTOCK_KAFKA_S", "PENSTOCK_KAFKA_O", "PENSTOCK_SCHEMA"))
    }
    for name, path in process.files.items():
        file = folder / path.strip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("secret\n" if name.endswith("PASSWORD_FILE") else _CERTIFICATE)
        fields[name.removeprefix("PENSTOCK_").lower()] = str(file)
    return KafkaSettings.model_validate(fields).kafka_of("kafka:9093")


@pytest.mark.parametrize("describe", _OPEN)
def test_a_cell_that_is_told_nothing_has_an_open_kafka_and_no_registry(describe: Describe, tmp_path: Path) -> None:
    for process in describe():
        found = kafka_of(process, tmp_path)
        assert (found.protocol, found.mechanism, found.registry) == ("PLAINTEXT", None, None)
        assert process.environment.keys().isdisjoint(_AWS)


@pytest.mark.parametrize("describe", _SECURED)
def test_who_asks_kafka_logs_in_there_by_files(describe: Describe, tmp_path: Path) -> None:
    told = {}
    for process in describe():
        found = kafka_of(process, tmp_path)
        told[process.service] = found.protocol
        if found.protocol == "SASL_SSL":
            login = (found.mechanism, found.username, found.password, found.authorities)
            assert login == ("SCRAM-SHA-512", "penstock", "secret", _CERTIFICATE)
            assert not any(process.environment[name] in ("", "secret") for name in process.files)
    assert {name for name, protocol in told.items() if protocol == "SASL_SSL"} == {"job_service", "task_manager"}


@pytest.mark.parametrize("describe", _SECURED)
def test_task_managers_alone_have_the_registry_and_the_login_of_s3(describe: Describe, tmp_path: Path) -> None:
    for process in describe():
        registry = kafka_of(process, tmp_path).registry
        is_task_manager = process.service == "task_manager"
        assert (registry is not None) is is_task_manager, process.service
        assert _AWS.isdisjoint(process.environment) is not is_task_manager
        if is_task_manager:
            assert (registry.url, registry.username, registry.password) == (  # type: ignore[union-attr]
                "https://registry:8081",
                "penstock",
                "secret",
            )
            assert set(json.loads(process.environment["PENSTOCK_HOST_ENVIRONMENT"])) == _AWS


def test_compose_hands_on_what_its_processes_know() -> None:
    """And what the second Task Manager gets is what the first one gets."""
    for process in described.compose_secured():
        ours = {name for name in process.environment if name.startswith("PENSTOCK_")}
        everybodys = set(described.composed("console")["environment"]) | set(
            described.composed("task_service")["environment"]
        )
        assert ours - everybodys <= known(process.service), process.service
    first, second = (described.overridden(f"task_manager_{number}") for number in (1, 2))
    different = {name for name in first["environment"] if first["environment"][name] != second["environment"][name]}
    assert different == {"PENSTOCK_CONTAINER", "PENSTOCK_PUBLIC_URL"}
    assert first["build"] == second["build"]


def test_compose_puts_the_files_where_the_variables_say() -> None:
    for name in ("job_service", "task_manager_1", "task_manager_2"):
        assert f"{SECURED['PENSTOCK_FILES']}:/files:ro" in described.overridden(name)["volumes"]
        assert not any("/files" in str(each) for each in described.composed(name)["volumes"])


def test_an_image_for_s3_has_its_jars() -> None:
    """The build argument of Compose is one of the Dockerfile, whose command takes the names of stores."""
    file = (_ROOT / "deploy" / "Dockerfile").read_text()
    given = described.overridden("task_manager_1")["build"]["args"]
    assert given == {"PENSTOCK_STORES": "s3"}
    assert given.keys() == {
        line.removeprefix("ARG ").partition("=")[0] for line in file.splitlines() if line[:4] == "ARG "
    }
    [line] = [line for line in file.splitlines() if "$PENSTOCK_STORES" in line]
    words = line.removeprefix("RUN ").partition(" && ")[0].replace(".venv/bin/python -m", "printf %s,")
    made = subprocess.run(["sh", "-c", words], env=given, capture_output=True, text=True, check=True)
    assert made.stdout == f"{jars.__name__},s3,"


@pytest.mark.parametrize(("service", "options"), units.OPTIONS.items())
def test_each_credential_of_a_unit_is_a_file_that_a_variable_names(service: str, options: tuple[str, ...]) -> None:
    said, found = units.words(service, options), units.environment(service, options)
    credentials = [each.partition(":")[0] for each in said["LoadCredential"]]
    named = [
        value.removeprefix(f"{units.CREDENTIALS}/") for value in found.values() if value.startswith(units.CREDENTIALS)
    ]
    assert sorted(credentials) == sorted(named) != []
    assert found.keys() - units.environment(service).keys() <= known(service) | _AWS
