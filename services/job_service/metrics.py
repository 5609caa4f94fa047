"""Prometheus metrics of the Job Service, read from the store at each scrape."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from sqlalchemy import Engine

from penstock.control.errors import PenstockError
from penstock.control.logs import logger
from penstock.model.alerts import AlertKind
from penstock.store.engine import snapshot
from services.job_service.store.overview import open_by_kind

log = logger(__name__)


class OpenAlerts(Collector):
    """The number of open alerts of each kind; no metric while the store does not answer."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def describe(self) -> list[Metric]:
        """Empty: registration asks no store."""
        return []

    def collect(self) -> Iterator[Metric]:
        """All kinds, also those without an open alert."""
        try:
            with snapshot(self._engine) as connection:
                found = open_by_kind(connection)
        except PenstockError as error:
            log.warning("open alerts not counted", error=error.detail)
            return
        family = GaugeMetricFamily("penstock_alerts_open", "Open alerts that no silence leaves out.", labels=["kind"])
        for kind in AlertKind:
            family.add_metric([kind.value], found.get(kind.value, 0))
        yield family
