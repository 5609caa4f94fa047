"""Whether the services and Kafka answer, asked from here. No answer is told as such, with its reason."""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

import httpx
from confluent_kafka import KafkaException

from penstock.kafka.access import Kafka
from penstock.kafka.refusals import Admin
from penstock.wire.http import Identity, internal_client
from services.job_service.cell_facts import Probe

_WAIT_SECONDS = 2.0
_KAFKA_WAIT_SECONDS = 3.0
_DAY_SECONDS = 86_400.0


class Probes:
    """Asks the addresses of services for `/healthz`, and each Kafka for its brokers.

    `reports_old_seconds`: older reports of a container are out of date. `identity`: who asks.
    """

    def __init__(
        self,
        task_service_url: str,
        kafkas: Sequence[Kafka],
        reports_old_seconds: float,
        identity: Identity | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.task_service_urls = tuple(url.strip() for url in task_service_url.split(",") if url.strip())
        self.reports_old_seconds = reports_old_seconds
        self._kafkas = kafkas
        self._now = now
        self._http = internal_client(identity, timeout=_WAIT_SECONDS)

    def services(self, urls: Mapping[str, str]) -> dict[str, Probe]:
        """What became of a call to each of these addresses, by name; all are called at the same time."""
        with ThreadPoolExecutor(max_workers=max(1, len(urls))) as pool:
            return dict(zip(urls, pool.map(self._ask, urls.values()), strict=True))

    def buses(self) -> dict[str | None, Probe]:
        """Whether each Kafka that this service knows answers, by the name of its cluster; all are asked at once."""
        with ThreadPoolExecutor(max_workers=max(1, len(self._kafkas))) as pool:
            return dict(zip((kafka.cluster for kafka in self._kafkas), pool.map(_bus, self._kafkas), strict=True))

    def _ask(self, url: str) -> Probe:
        try:
            with self._http.stream("GET", f"{url}/healthz") as response:
                days_left = self._certificate_days_left(response)
                response.read()
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            return Probe(url, str(error) or type(error).__name__)
        error_text = None if response.is_success else f"HTTP {response.status_code}"
        return Probe(url, error_text, certificate_days_left=days_left)

    def _certificate_days_left(self, response: httpx.Response) -> float | None:
        """Of the certificate that the other side showed on this connection, which is open; None without TLS."""
        connection = response.extensions["network_stream"].get_extra_info("ssl_object")
        if connection is None:
            return None
        ends_at = ssl.cert_time_to_seconds(connection.getpeercert()["notAfter"])
        return (ends_at - self._now()) / _DAY_SECONDS


def _bus(kafka: Kafka) -> Probe:
    address = kafka.bootstrap
    try:
        admin = Admin.open(kafka, {"log_level": 0})
    except KafkaException as error:
        return Probe(address, f"no client could be made: {error}")
    try:
        return Probe(address, brokers=len(admin.client.list_topics(timeout=_KAFKA_WAIT_SECONDS).brokers))
    except KafkaException as error:
        return Probe(address, admin.failed("no answer", error).detail)
