"""A broker that lets nobody in who does not show who he is, and allows nothing that no ACL allows.

Two listeners: SASL_SSL, where users log in by PLAIN or SCRAM, and SSL, where certificates do. The administrator has the
certificate `admin`. Everything is made in a folder of its own.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import cached_property, partial
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from confluent_kafka.cimpl import NewTopic
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from penstock.control.process import wait_until
from penstock.kafka.access import Kafka
from penstock.local.kafka import EmbeddedKafka
from penstock.local.ports import LOOPBACK, accepts, free_port
from penstock.spark.topics import described
from tests.support.kafka.tokens import Signer

ADMIN, BROKER = "admin", "broker"
_OAUTH = "listener.name.sasl_ssl.oauthbearer"
_DAY = timedelta(days=1)


class Authority:
    """Signs certificates for the broker and its clients."""

    def __init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self.certificate = self._signed("authority", self._key, is_authority=True)

    def issue(self, name: str) -> tuple[str, str]:
        """A certificate `CN=<name>` for this machine, and its key, both PEM."""
        key = ec.generate_private_key(ec.SECP256R1())
        text = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        return self._signed(name, key), text.decode()

    def _signed(self, name: str, key: ec.EllipticCurvePrivateKey, *, is_authority: bool = False) -> str:
        now = datetime.now(UTC)
        builder = x509.CertificateBuilder().subject_name(_named(name)).issuer_name(_named("authority"))
        builder = builder.public_key(key.public_key()).serial_number(x509.random_serial_number())
        builder = builder.not_valid_before(now - _DAY).not_valid_after(now + _DAY)
        builder = builder.add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
        here = x509.SubjectAlternativeName([x509.IPAddress(ip_address(LOOPBACK))])
        signed = builder.add_extension(here, critical=False).sign(self._key, hashes.SHA256())
        return signed.public_bytes(serialization.Encoding.PEM).decode()


class SecuredKafka(EmbeddedKafka):
    """The broker. `bootstrap` is the listener for users, `certificates` that for certificates."""

    def __init__(self, folder: Path, plain_users: Mapping[str, str]) -> None:
        self.authority = Authority()
        self._certificates_port = free_port()
        self.certificates = f"{LOOPBACK}:{self._certificates_port}"
        self.tokens = Signer()
        self._keys = folder.with_suffix(".jwks")
        self._keys.write_text(self.tokens.keys())
        allowed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={self._keys.as_uri()}"
        settings = {**_SETTINGS, **self._of_listeners(plain_users)}
        super().__init__(folder, settings=settings, jvm_options=[allowed])

    def by_certificate(self, name: str) -> Kafka:
        """How a client with the certificate `CN=<name>` reaches it."""
        certificate, key = self.authority.issue(name)
        return Kafka(self.certificates, "SSL", authorities=self.authority.certificate, certificate=certificate, key=key)

    def as_user(self, name: str, password: str, *, is_scram: bool = True) -> Kafka:
        """How a user reaches it."""
        mechanism = "SCRAM-SHA-512" if is_scram else "PLAIN"
        return Kafka(self.bootstrap, "SASL_SSL", mechanism, name, password, self.authority.certificate)  # type: ignore[arg-type]

    def by_token(self, client: str, secret: str, token_url: str) -> Kafka:
        """How a client of OAuth reaches it."""
        by_password = self.as_user(client, secret)
        return dataclasses.replace(by_password, mechanism="OAUTHBEARER", token_url=token_url, scope="kafka")

    def add_user(self, name: str, password: str) -> None:
        """A user of SCRAM."""
        info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        change = UserScramCredentialUpsertion(name, info, password.encode())
        for future in self.admin.alter_user_scram_credentials([change]).values():
            future.result(10)

    def allow(self, name: str, kind: ResourceType, resource: str, *operations: AclOperation) -> None:
        """Operations on all resources of the kind whose names begin so."""
        whole = (kind, resource, ResourcePatternType.PREFIXED, f"User:{name}", "*")
        acls = [AclBinding(*whole, each, AclPermissionType.ALLOW) for each in operations]
        for future in self.admin.create_acls(acls).values():
            future.result(10)

    def revoke(self, name: str, kind: ResourceType, resource: str, operation: AclOperation) -> None:
        """What `allow` gave. Raises AssertionError where it gave no such right."""
        whole = (kind, resource, ResourcePatternType.PREFIXED, f"User:{name}", "*")
        (future,) = self.admin.delete_acls([AclBindingFilter(*whole, operation, AclPermissionType.ALLOW)]).values()
        assert future.result(10)

    @cached_property
    def by_administrator(self) -> Kafka:
        """How the administrator reaches it."""
        return self.by_certificate(ADMIN)

    @cached_property
    def admin(self) -> AdminClient:
        """The client of the administrator."""
        return AdminClient(self.by_administrator.client_settings())

    def make_topic(self, name: str, partitions: int) -> None:
        """A topic that nobody may use yet but the administrator."""
        self.admin.create_topics([NewTopic(name, partitions, 1)])[name].result(10)
        # The controller knows it now; the broker that clients ask hears of it a moment later.
        shown = partial(described, self.by_administrator, [name])
        wait_until(lambda: not shown()[name].is_missing, 10, f"the broker to know {name}")

    def _of_listeners(self, plain_users: Mapping[str, str]) -> dict[str, str]:
        certificate, key = (text.replace("\n", "\\n") for text in self.authority.issue(BROKER))
        users = " ".join(f'user_{name}="{password}"' for name, password in plain_users.items())
        module = "org.apache.kafka.common.security"
        return {
            "ssl.keystore.certificate.chain": certificate,
            "ssl.keystore.key": key,
            "ssl.truststore.certificates": self.authority.certificate.replace("\n", "\\n"),
            "listener.name.sasl_ssl.plain.sasl.jaas.config": f"{module}.plain.PlainLoginModule required {users};",
            f"{_OAUTH}.sasl.jaas.config": f"{module}.oauthbearer.OAuthBearerLoginModule required;",
            f"{_OAUTH}.sasl.server.callback.handler.class": f"{module}.oauthbearer.OAuthBearerValidatorCallbackHandler",
            "sasl.oauthbearer.jwks.endpoint.url": self._keys.as_uri(),
            "listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config": f"{module}.scram.ScramLoginModule required;",
        }

    def _listeners(self) -> str:
        return f"SASL_SSL://{self.bootstrap},SSL://{self.certificates}"

    def _answers(self) -> bool:
        if not accepts(self._certificates_port):
            return False
        try:
            return bool(self.admin.list_topics(timeout=2).brokers)
        except KafkaException:
            return False


_SETTINGS = {
    "listener.security.protocol.map": "SASL_SSL:SASL_SSL,SSL:SSL,CONTROLLER:PLAINTEXT",
    "inter.broker.listener.name": "SSL",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512,OAUTHBEARER",
    "ssl.keystore.type": "PEM",
    "ssl.truststore.type": "PEM",
    "listener.name.ssl.ssl.client.auth": "required",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    # The controller's own listener is open, and only the broker uses it.
    "super.users": f"User:CN={ADMIN};User:CN={BROKER};User:ANONYMOUS",
}


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def settings_of(kafka: Kafka, folder: Path) -> dict[str, Any]:
    """The settings of a process that reaches it so, with its files in `folder`."""
    texts = {
        "kafka_sasl_password_file": kafka.password,
        "kafka_ssl_ca": kafka.authorities,
        "kafka_ssl_certificate": kafka.certificate,
        "kafka_ssl_key": kafka.key,
    }
    found: dict[str, Any] = {
        "kafka_security_protocol": kafka.protocol,
        "kafka_sasl_mechanism": kafka.mechanism,
        "kafka_sasl_username": kafka.username,
        "kafka_oauth_token_url": kafka.token_url,
        "kafka_oauth_scope": kafka.scope,
    }
    for name, text in texts.items():
        if text is not None:
            path = found[name] = folder / name
            path.write_text(text)
    return found
