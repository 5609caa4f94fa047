"""Further Kafka clusters by name: their settings, what is refused, and where they are known."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from penstock.cli import checks
from penstock.cli.findings import Level
from penstock.cli.kafka_settings import CliKafkaSettings
from penstock.config.topics import full_topic, topic_and_cluster
from penstock.control.errors import BrokenTask, Unavailable, UserError
from penstock.kafka.access import Kafka
from penstock.kafka.refusals import refusal_text
from penstock.kafka.settings import KafkaSettings
from penstock.local.topics import require_listening
from penstock.spark.access import kept_values
from penstock.spark.settings import SparkSettings
from penstock.spark.topics import described
from services.job_service.probes import Probes
from services.job_service.settings import JobServiceSettings

SETTING = "PENSTOCK_KAFKA_CLUSTERS"
PASSWORD = "password-of-the-hosts"
EU = {
    "bootstrap": "eu-1:9093, eu-2:9093",
    "security_protocol": "SASL_PLAINTEXT",
    "sasl_mechanism": "SCRAM-SHA-512",
    "sasl_username": "bob",
    "sasl_password_file": "password",
}


@pytest.fixture
def clusters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Two clusters in the environment, one with a password."""
    monkeypatch.chdir(tmp_path)
    Path("password").write_text(f"{PASSWORD}\n")
    given = {"eu": EU, "analytics": {"bootstrap": "127.0.0.1:1"}}
    monkeypatch.setenv(SETTING, json.dumps(given))
    return given


def test_names_come_back() -> None:
    assert topic_and_cluster(full_topic("orders.v1", "eu")) == ("orders.v1", "eu")
    assert topic_and_cluster(full_topic("orders.v1", None)) == ("orders.v1", None)
    assert full_topic("orders.v1", None) == "orders.v1"


def test_a_host_reaches_each_by_its_name(clusters: dict[str, Any]) -> None:
    """1. Each with its own login and the cell's one registry. 2. Hosts get the settings without a secret, and mask the
    password. 3. One that is not there is told with those that are."""
    settings = SparkSettings(checkpoint_root="", schema_registry_url="http://r:1", kafka_bootstrap="own:9092")
    own, eu = settings.cluster(None), settings.cluster("eu")
    assert (own.bootstrap, own.cluster, own.username) == ("own:9092", None, None)
    assert (eu.bootstrap, eu.cluster, eu.username, eu.password) == (EU["bootstrap"], "eu", "bob", PASSWORD)
    assert own.registry == eu.registry == settings.cluster("analytics").registry is not None
    assert eu.java_settings()["sasl.mechanism"] == "SCRAM-SHA-512"

    passed = settings.to_environment()
    assert json.loads(passed[SETTING]) == clusters
    assert PASSWORD not in "".join(passed.values())
    assert PASSWORD in set(kept_values(settings))

    with pytest.raises(BrokenTask, match=f"no Kafka cluster us in {SETTING}; there are: analytics, eu") as refused:
        settings.cluster("us")
    assert refused.value.extra["rule"] == "known_cluster"
    Path("password").write_text("two\nlines")
    with pytest.raises(Unavailable, match=f"{SETTING}: eu.sasl_password_file: needs one line of text"):
        settings.cluster("eu")
    Path("password").unlink()
    with pytest.raises(Unavailable, match=f"{SETTING}: eu.sasl_password_file: password cannot be read"):
        settings.cluster("eu")
    assert [kafka.cluster for kafka in SparkSettings(checkpoint_root="").kafkas()] == [None, "analytics"]


def test_a_cluster_that_is_gone_for_good_is_used_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """1. It is no cluster for jobs, probes and masks of secrets, and is told as gone. 2. Hosts get to know it."""
    given = {"eu": {"bootstrap": "eu:9093", "gone": True}, "us": {"bootstrap": "us:9093", "gone": False}}
    monkeypatch.setenv(SETTING, json.dumps(given))
    settings = SparkSettings(checkpoint_root="")
    assert (settings.cluster_names, settings.gone_clusters) == (("us",), {"eu"})
    assert [kafka.cluster for kafka in settings.kafkas()] == [None, "us"]
    told = f"the Kafka cluster eu is gone for good: {SETTING} says so"
    with pytest.raises(BrokenTask, match=told) as refused:
        settings.cluster("eu")
    assert refused.value.extra["rule"] == "known_cluster"
    with pytest.raises(UserError, match=told):
        settings.further_cluster("eu")
    assert json.loads(settings.to_environment()[SETTING])["eu"] == given["eu"]


@pytest.mark.usefixtures("clusters")
@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("x", "needs a JSON object such as"),
        ([], "needs a JSON object such as"),
        ({"EU": {"bootstrap": "a:1"}}, "EU: the name of a cluster has 1 to 100 lower case letters"),
        ({"eu": {}}, "eu.bootstrap: Field required"),
        ({"eu": {"bootstrap": ""}}, "eu.bootstrap: String should have at least 1 character"),
        ({"eu": {"bootstrap": "a:1", "sasl_password": "x"}}, "eu.sasl_password: Extra inputs"),
        ({"eu": {"bootstrap": "a:1", "security_protocol": "TLS"}}, "eu.security_protocol: Input should be 'PLAINTEXT'"),
        ({"eu": EU | {"security_protocol": "SSL"}}, "eu.sasl_mechanism: SSL has no use for it; set eu.security"),
        ({"eu": EU | {"sasl_username": None}}, "eu.sasl_username: SASL_PLAINTEXT needs it"),
        ({"eu": {"bootstrap": "a:1"}, "us": {"bootstrap": "b:1,A:1"}}, "us.bootstrap: a:1 is a broker of eu"),
    ],
)
def test_a_wrong_setting_names_the_cluster_the_field_and_the_rule(
    given: Any, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ValidationError, match=told):
        KafkaSettings.model_validate({"kafka_clusters": given})
    monkeypatch.setenv(SETTING, given if isinstance(given, str) else json.dumps(given))
    with pytest.raises(UserError, match=f"^{SETTING}: {told}"):
        CliKafkaSettings.read()


def test_a_password_in_the_setting_is_not_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SETTING, json.dumps({"eu": {"bootstrap": "a:1", "sasl_password": PASSWORD}}))
    with pytest.raises(ValidationError, match=r"eu\.sasl_password") as refused:
        SparkSettings(checkpoint_root="")
    assert PASSWORD not in str(refused.value)


def test_a_file_that_is_no_certificate_is_told_of_its_cluster() -> None:
    """No client can be made then; the status of the others is still to be had."""
    broken = Kafka("127.0.0.1:1", "SSL", authorities="-----BEGIN CERTIFICATE-----\nnone\n", cluster="eu")
    assert "no client could be made" in str(Probes("", [broken], 60.0).buses()["eu"].error)
    with pytest.raises(Unavailable, match="no client of kafka could be made"):
        described(broken, ["orders"])


@pytest.mark.parametrize("empty", ["", "{}"])
def test_without_any_nothing_changes(empty: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SETTING, empty)
    settings = SparkSettings(checkpoint_root="")
    assert settings.cluster_names == ()
    assert SETTING not in settings.to_environment()
    assert list(settings.kafkas()) == [Kafka("127.0.0.1:9092")]


def test_the_cells_own_kafka_has_no_second_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """A topic would have two names, and a loop would not be seen."""
    monkeypatch.setenv(SETTING, '{"again": {"bootstrap": "other:1,own:9092"}}')
    for settings in (partial_spark, JobServiceSettings):
        with pytest.raises(
            ValidationError, match=f"{SETTING}: again.bootstrap: own:9092 is a broker of the cell's own"
        ):
            settings(kafka_bootstrap="own:9092", database_url="postgresql://h/d")


def partial_spark(**fields: str) -> SparkSettings:
    return SparkSettings(checkpoint_root="", **fields)


def test_the_job_service_asks_all_that_it_knows(clusters: dict[str, Any]) -> None:
    settings = JobServiceSettings(database_url="postgresql://h/d")
    assert [kafka.cluster for kafka in settings.kafkas()] == ["analytics", "eu"]
    own = settings.model_copy(update={"kafka_bootstrap": "own:1"}).kafkas()
    assert [kafka.cluster for kafka in own] == [None, *sorted(clusters)]


@pytest.mark.usefixtures("clusters")
def test_the_cli_knows_those_of_its_environment_else_of_the_stack(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = CliKafkaSettings.read()
    assert settings.kafka("eu").username == "bob"
    with pytest.raises(UserError, match="there is no Kafka cluster us"):
        settings.kafka("us")
    with pytest.raises(Unavailable, match=rf"kafka at analytics .*is analytics.bootstrap in {SETTING} right\?"):
        require_listening(settings.kafka("analytics"))

    monkeypatch.delenv(SETTING)
    monkeypatch.setenv("PENSTOCK_DATA_DIR", str(tmp_path))
    (tmp_path / "stack.json").write_text(json.dumps({"kafka_clusters": '{"noted": {"bootstrap": "n:1"}}'}))
    assert CliKafkaSettings.read().kafka("noted") == Kafka("n:1", cluster="noted")


@pytest.mark.usefixtures("clusters")
def test_the_doctor_looks_at_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that does not answer does not hide the others."""
    monkeypatch.setattr(checks, "require_listening", lambda kafka: kafka.cluster == "eu" or require_listening(kafka))
    monkeypatch.setattr(checks, "topic_count", lambda _: 3)
    monkeypatch.setattr(checks, "CHECKS", tuple(each for each in checks.CHECKS if each.part == "kafka"))
    found = {each.part: each for each in checks.found(CliKafkaSettings.read())}
    assert (found["kafka eu"].level, found["kafka eu"].summary) == (Level.OK, f"3 topics at {EU['bootstrap']}")
    assert (found["kafka analytics"].level, SETTING in found["kafka analytics"].advice) == (Level.FAIL, True)


def test_a_refused_login_names_the_cluster() -> None:
    told = refusal_text(Kafka("eu:1", "SASL_SSL", "PLAIN", "bob", cluster="eu"), "no")
    assert told.startswith(
        "kafka refuses the user bob (PLAIN) at eu (eu:1): no. Check eu.security_protocol in PENSTOCK"
    )
