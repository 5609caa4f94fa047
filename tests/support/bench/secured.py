"""A broker that is reached by three ways: open to everybody, by TLS, and by TLS with a password."""

from __future__ import annotations

from pathlib import Path

from confluent_kafka.admin import AclOperation, ResourceType

from penstock.kafka.access import Kafka
from penstock.local.ports import LOOPBACK, free_port
from tests.support.kafka.secured import ADMIN, SecuredKafka

_USER, _PASSWORD = "reader", "password-of-the-reader"
_MAP = "listener.security.protocol.map"


class PartlySecuredKafka(SecuredKafka):
    """The secured broker of the tests with one more listener, for clients without a login."""

    def __init__(self, folder: Path) -> None:
        self._open = f"{LOOPBACK}:{free_port()}"
        super().__init__(folder, {})
        self._settings[_MAP] += ",PLAINTEXT:PLAINTEXT"

    def ways(self, topics: str) -> dict[str, Kafka]:
        """How clients reach it, who may all use topics whose names begin with `topics`."""
        self.add_user(_USER, _PASSWORD)
        rights = (AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE)
        self.allow(_USER, ResourceType.TOPIC, topics, *rights)
        return {
            "plaintext": Kafka(self._open),
            "tls": self.by_certificate(ADMIN),
            "sasl_ssl": self.as_user(_USER, _PASSWORD),
        }

    def _listeners(self) -> str:
        return f"{super()._listeners()},PLAINTEXT://{self._open}"
