"""Settings of a secured Kafka: which fit each other, and what both kinds of clients get of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import KafkaError
from pydantic import ValidationError

from penstock.cli.kafka_settings import CliKafkaSettings
from penstock.control.errors import Unavailable, UserError
from penstock.kafka.access import Kafka, kafka_at
from penstock.kafka.refusals import Refusals
from penstock.kafka.registry import Registry
from penstock.kafka.settings import KafkaSettings
from penstock.spark.access import kept_values
from penstock.spark.settings import SparkSettings

CERTIFICATE = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"
KEY = "-----BEGIN PRIVATE KEY-----\nMIGH\n-----END PRIVATE KEY-----\n"
PASSWORD = 'quote " and \\ slash'
USER = {"kafka_sasl_mechanism": "SCRAM-SHA-512", "kafka_sasl_username": "bob", "kafka_sasl_password_file": "password"}
TOKENS = {"kafka_oauth_token_url": "https://tokens/token", "kafka_oauth_scope": "kafka"}
REGISTRY = {
    "schema_registry_url": "http://registry:8081",
    "schema_registry_username": "bob",
    "schema_registry_password_file": "password",
}
PAIR = {"kafka_ssl_certificate": "client.crt", "kafka_ssl_key": "client.key"}


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files that the settings of these tests name."""
    monkeypatch.chdir(tmp_path)
    texts = {"password": f"{PASSWORD}\n", "ca.crt": CERTIFICATE, "client.crt": CERTIFICATE, "client.key": KEY}
    wrong = {"empty": "\n", "two-lines": "a\nb\n", "old.key": "-----BEGIN EC PRIVATE KEY-----\n", "no.pem": "x"}
    for name, text in (texts | wrong).items():
        Path(name).write_text(text)


WRONG = (
    ({"kafka_sasl_username": "bob"}, "PENSTOCK_KAFKA_SASL_USERNAME: PLAINTEXT has no use for it"),
    ({"kafka_ssl_ca": "ca.crt"}, "PENSTOCK_KAFKA_SSL_CA: PLAINTEXT has no use for it"),
    ({"kafka_security_protocol": "SSL", **USER}, "PENSTOCK_KAFKA_SASL_MECHANISM: SSL has no use for it"),
    ({"kafka_security_protocol": "SASL_PLAINTEXT", **USER, **PAIR}, "PENSTOCK_KAFKA_SSL_CERTIFICATE: SASL_PLAINTEXT"),
    *(
        ({"kafka_security_protocol": "SASL_SSL", **USER, name: None}, f"PENSTOCK_{name.upper()}: SASL_SSL needs it")
        for name in USER
    ),
    ({"kafka_security_protocol": "SSL", **PAIR, "kafka_ssl_key": ""}, "PENSTOCK_KAFKA_SSL_KEY: .* go together"),
    ({"kafka_security_protocol": "SSL", "kafka_ssl_key": "client.key"}, "KAFKA_SSL_CERTIFICATE: .* go together"),
    ({"kafka_security_protocol": "SSL", "kafka_ssl_ca": "gone"}, "SSL_CA: gone cannot be read: No such file"),
    ({"kafka_security_protocol": "SSL", "kafka_ssl_ca": "no.pem"}, "PENSTOCK_KAFKA_SSL_CA: is not PEM"),
    ({"kafka_security_protocol": "SSL", **PAIR, "kafka_ssl_key": "old.key"}, "PENSTOCK_KAFKA_SSL_KEY: .*PKCS 8"),
    *(
        (
            {"kafka_security_protocol": "SASL_SSL", **USER, "kafka_sasl_password_file": name},
            "PENSTOCK_KAFKA_SASL_PASSWORD_FILE: needs one line",
        )
        for name in ("empty", "two-lines")
    ),
    ({"kafka_security_protocol": "SASL_SSL", **USER, **TOKENS}, "PENSTOCK_KAFKA_OAUTH_TOKEN_URL: only .*OAUTHBEARER"),
    (
        {"kafka_security_protocol": "SASL_SSL", **USER, "kafka_sasl_mechanism": "OAUTHBEARER"},
        "PENSTOCK_KAFKA_OAUTH_TOKEN_URL: OAUTHBEARER needs it",
    ),
    ({"schema_registry_username": "bob"}, "PENSTOCK_SCHEMA_REGISTRY_USERNAME: set PENSTOCK_SCHEMA_REGISTRY_URL"),
    ({**REGISTRY, "schema_registry_password_file": ""}, "REGISTRY_PASSWORD_FILE: a user and its password file go"),
    ({**REGISTRY, "schema_registry_password_file": "empty"}, "REGISTRY_PASSWORD_FILE: needs one line"),
    ({"schema_registry_url": "http://bob:secret@registry"}, "schema_registry_url\n"),
    ({"kafka_security_protocol": "TLS"}, "kafka_security_protocol\n  Input should be 'PLAINTEXT'"),
    ({"kafka_security_protocol": "SASL_SSL", **USER, "kafka_sasl_mechanism": "GSSAPI"}, "kafka_sasl_mechanism\n"),
)


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize(("given", "told"), WRONG)
def test_settings_that_do_not_fit_name_the_variable_and_the_rule(given: dict[str, str | None], told: str) -> None:
    with pytest.raises(ValidationError, match=told):
        KafkaSettings.model_validate(given)


def test_without_settings_a_client_gets_the_address_only() -> None:
    kafka = KafkaSettings().kafka_of("kafka:9092")  # type: ignore[call-arg]
    assert kafka == kafka_at("kafka:9092") == Kafka("kafka:9092")
    assert kafka.client_settings() == kafka.java_settings() == {"bootstrap.servers": "kafka:9092"}


@pytest.mark.usefixtures("files")
def test_a_schema_registry_beside_an_open_kafka() -> None:
    kafka = KafkaSettings.model_validate(REGISTRY).kafka_of("kafka:9092")
    assert kafka.registry == Registry("http://registry:8081", "bob", PASSWORD)
    assert (list(kafka.secret_values()), PASSWORD in repr(kafka)) == ([PASSWORD], False)
    assert kafka.java_settings() == {"bootstrap.servers": "kafka:9092"}


@pytest.mark.usefixtures("files")
def test_a_user_with_tls() -> None:
    given = {"kafka_security_protocol": "SASL_SSL", **USER, "kafka_ssl_ca": "ca.crt"}
    kafka = KafkaSettings.model_validate(given).kafka_of("kafka:9093")
    assert kafka.client_settings() == {
        "bootstrap.servers": "kafka:9093",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "bob",
        "sasl.password": PASSWORD,
        "ssl.ca.pem": CERTIFICATE,
    }
    assert kafka.spark_options() == {
        "kafka.bootstrap.servers": "kafka:9093",
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "SCRAM-SHA-512",
        "kafka.sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required "
        'username="bob" password="quote \\" and \\\\ slash";',
        "kafka.ssl.truststore.type": "PEM",
        "kafka.ssl.truststore.certificates": CERTIFICATE,
    }
    assert (str(kafka), PASSWORD in repr(kafka)) == ("kafka:9093", False)


@pytest.mark.usefixtures("files")
def test_a_client_of_oauth() -> None:
    given = {"kafka_security_protocol": "SASL_SSL", **USER, **TOKENS, "kafka_sasl_mechanism": "OAUTHBEARER"}
    kafka = KafkaSettings.model_validate(given).kafka_of("kafka:9093")
    assert kafka.client_settings() == {
        "bootstrap.servers": "kafka:9093",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.client.id": "bob",
        "sasl.oauthbearer.client.secret": PASSWORD,
        "sasl.oauthbearer.token.endpoint.url": "https://tokens/token",
        "sasl.oauthbearer.scope": "kafka",
    }
    module = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLogin"
    assert kafka.java_settings() == {
        "bootstrap.servers": "kafka:9093",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.login.callback.handler.class": f"{module}CallbackHandler",
        "sasl.oauthbearer.token.endpoint.url": "https://tokens/token",
        "sasl.jaas.config": f'{module}Module required clientId="bob" clientSecret="quote \\" and \\\\ slash" '
        'scope="kafka";',
    }


@pytest.mark.usefixtures("files")
def test_a_certificate() -> None:
    kafka = KafkaSettings.model_validate({"kafka_security_protocol": "SSL", **PAIR}).kafka_of("kafka:9093")
    assert kafka.client_settings() == {
        "bootstrap.servers": "kafka:9093",
        "security.protocol": "SSL",
        "ssl.certificate.pem": CERTIFICATE,
        "ssl.key.pem": KEY,
    }
    assert kafka.java_settings() == {
        "bootstrap.servers": "kafka:9093",
        "security.protocol": "SSL",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": CERTIFICATE,
        "ssl.keystore.key": KEY,
    }


@pytest.mark.usefixtures("files")
def test_a_host_gets_paths_and_the_container_hides_values(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {"kafka_security_protocol": "SASL_SSL", **USER, **PAIR}
    settings = SparkSettings.model_validate({"checkpoint_root": "/c", "kafka_bootstrap": "k:1", **given})
    environment = settings.to_environment()
    assert environment["PENSTOCK_KAFKA_SASL_PASSWORD_FILE"] == "password"
    assert not {PASSWORD, KEY} & set(environment.values())
    assert {PASSWORD, KEY} <= set(kept_values(settings))
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert SparkSettings().kafka == settings.kafka  # type: ignore[call-arg]


@pytest.mark.usefixtures("files")
def test_a_file_that_goes_later_is_named() -> None:
    settings = KafkaSettings.model_validate({"kafka_security_protocol": "SSL", "kafka_ssl_ca": "ca.crt"})
    Path("ca.crt").unlink()
    with pytest.raises(Unavailable, match=r"PENSTOCK_KAFKA_SSL_CA: ca\.crt cannot be read"):
        settings.kafka_of("kafka:9093")


@pytest.mark.parametrize(
    ("variable", "value", "told"),
    [
        ("SASL_USERNAME", "bob", "PENSTOCK_KAFKA_SASL_USERNAME: PLAINTEXT has no use for it"),
        ("SECURITY_PROTOCOL", "TLS", "PENSTOCK_KAFKA_SECURITY_PROTOCOL: Input should be"),
    ],
)
def test_the_cli_says_it_in_one_line(monkeypatch: pytest.MonkeyPatch, variable: str, value: str, told: str) -> None:
    monkeypatch.setenv(f"PENSTOCK_KAFKA_{variable}", value)
    with pytest.raises(UserError, match=told):
        CliKafkaSettings.read()


def test_only_refused_logins_are_told() -> None:
    refusals = Refusals(Kafka("kafka:9093", "SASL_SSL", "PLAIN", "bob", "secret-password"))
    refusals.heard(KafkaError(KafkaError._ALL_BROKERS_DOWN, "1/1 brokers are down"))
    refusals.heard(KafkaError(KafkaError._TRANSPORT, "Connection refused"))
    assert refusals.error() is None
    refusals.heard(KafkaError(KafkaError._AUTHENTICATION, "Invalid username or password"))
    error = refusals.error()
    assert error is not None
    assert error.detail.startswith("kafka refuses the user bob (PLAIN) at kafka:9093: Invalid username or password")
    refusals.heard(KafkaError(KafkaError._TRANSPORT, "error:0A000412:SSL routines::ssl/tls alert bad certificate"))
    assert refusals.count == 2
