"""Logins that Kafka refuses. Its clients only say that nobody answers; the reason comes to a listener of errors."""

from __future__ import annotations

from collections.abc import Collection
from concurrent.futures import Future
from typing import Any, NamedTuple, Self

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from penstock.control.errors import Unavailable
from penstock.kafka.access import Brokers, Kafka, kafka_at

_CODES = frozenset({KafkaError._AUTHENTICATION, KafkaError._SSL, KafkaError.SASL_AUTHENTICATION_FAILED})
# An alert of TLS comes as a broken connection.
_TLS = "SSL routines"
LOGIN = "kafka_login"
"""The rule of a refused login, which says nothing about what was asked for."""
_POLL_SECONDS = 0.01
_LOGIN_SECONDS = 10.0


class Refusals:
    """What a client hears (`error_cb`) of refused logins. From any thread."""

    def __init__(self, kafka: Kafka) -> None:
        self.kafka = kafka
        self._newest: KafkaError | None = None
        self.count = 0

    def heard(self, error: KafkaError) -> None:
        """Takes an error of the client; others than refusals do not count."""
        if error.code() in _CODES or _TLS in error.str():
            self._newest = error
            self.count += 1

    def error(self) -> Unavailable | None:
        """The newest refusal; None without any."""
        if self._newest is None:
            return None
        return Unavailable(refusal_text(self.kafka, self._newest.str()), rule=LOGIN)


class Admin(NamedTuple):
    """A client that asks, and what it hears."""

    client: AdminClient
    refusals: Refusals

    @classmethod
    def open(cls, brokers: Brokers, settings: dict[str, Any], **more: Any) -> Self:
        """A client with further settings of librdkafka. It is to be kept until its answers have come."""
        kafka = kafka_at(brokers)
        refusals = Refusals(kafka)
        whole: dict[str, Any] = {**kafka.client_settings(), **settings, "error_cb": refusals.heard}
        return cls(AdminClient(whole, **more), refusals)

    def wait(self, answers: Collection[Future[Any]]) -> None:
        """Waits until all are there. Raises Unavailable as soon as the login is refused."""
        before = self.refusals.count
        while not all(answer.done() for answer in answers):
            self.client.poll(_POLL_SECONDS)
            if self.refusals.count > before:
                self.require_login()

    def try_login(self) -> None:
        """Raises Unavailable where Kafka refuses the login. A call that blocks would find it out at its time limit."""
        if self.refusals.kafka.protocol != "PLAINTEXT":
            self.wait([self.client.describe_cluster(request_timeout=_LOGIN_SECONDS)])

    def require_login(self) -> None:
        """Raises Unavailable when the login was refused."""
        self.client.poll(0)
        error = self.refusals.error()
        if error is not None:
            raise error

    def failed(self, what: str, error: KafkaException) -> Unavailable:
        """Why Kafka gave no answer: the refused login, else `what` with the client's error."""
        self.client.poll(0)
        return self.refusals.error() or Unavailable(f"{what}: {error.args[0].str()}")


def refusal_text(kafka: Kafka, why: str) -> str:
    """A refused login, for people. Pure."""
    return (
        f"kafka refuses {kafka.login()} at {kafka}: {why}. Check {kafka.setting('security_protocol')} and what it needs"
    )
