"""Prometheus metrics of the Job Service. A thread of its own reads them from the store: no scrape waits for that."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from sqlalchemy import Engine

from penstock.control.clock import Clock
from penstock.control.errors import PenstockError
from penstock.control.logs import logger
from penstock.model.alerts import AlertKind
from penstock.store.engine import snapshot
from services.job_service.store.overview import open_by_kind

log = logger(__name__)
LOOK_SECONDS = 10.0
OLD_SECONDS = 30.0
_END_SECONDS = 2.0


class OpenAlerts(Collector):
    """The number of open alerts of each kind, at most `OLD_SECONDS` old; no metric where it is not known."""

    def __init__(self, engine: Engine, clock: Clock) -> None:
        self._engine = engine
        self._clock = clock
        self._counted: tuple[float, Mapping[str, int]] = (float("-inf"), {})
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="open-alerts", daemon=True)

    def start(self) -> None:
        """Counts at once, then every `LOOK_SECONDS`."""
        self._thread.start()

    def stop(self) -> None:
        """Ends; a read that the store does not answer is left to itself."""
        self._stopping.set()
        self._thread.join(_END_SECONDS)

    def read_again(self) -> None:
        """Reads the store. What failed is logged; the count before is shown until it is too old."""
        began_at = self._clock.monotonic()
        try:
            with snapshot(self._engine) as connection:
                self._counted = (began_at, open_by_kind(connection))
        except PenstockError as error:
            log.warning("open alerts not counted", error=error.detail)
        except Exception:
            log.exception("open alerts not counted")

    def describe(self) -> list[Metric]:
        """Empty: nothing is known yet at registration."""
        return []

    def collect(self) -> Iterator[Metric]:
        """All kinds, also those without an open alert."""
        counted_at, found = self._counted
        if self._clock.monotonic() - counted_at > OLD_SECONDS:
            return
        family = GaugeMetricFamily("penstock_alerts_open", "Open alerts that no silence leaves out.", labels=["kind"])
        for kind in AlertKind:
            family.add_metric([kind.value], found.get(kind.value, 0))
        yield family

    def _run(self) -> None:
        while not self._stopping.is_set():
            self.read_again()
            self._stopping.wait(LOOK_SECONDS)
