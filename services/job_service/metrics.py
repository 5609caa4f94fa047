"""Prometheus metrics of the Job Service. Threads of their own read them from the store: no scrape waits for that.

What is counted of the fleet is also written down by minute, for the console.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from sqlalchemy import Connection, Engine

from penstock.control.clock import Clock
from penstock.control.errors import PenstockError
from penstock.control.logs import logger
from penstock.model.alert_rules import RULES
from penstock.model.states import Health
from penstock.store.engine import snapshot, transaction
from penstock.wire.fleet import FleetView
from services.job_service.census import Census
from services.job_service.store.fleet_counts import FleetCounts, count_fleet
from services.job_service.store.fleet_minutes import note_health, note_tasks
from services.job_service.store.overview import open_by_kind

log = logger(__name__)
LOOK_SECONDS = 10.0
OLD_SECONDS = 30.0
_END_SECONDS = 2.0


class StoreCounts(Collector):
    """What is counted in the store now and then; no metric where it is not known, or too old.

    A subclass reads (`_read`) and shows (`_families`).
    """

    name = ""
    """Of the thread, and in the log."""
    look_seconds, old_seconds = LOOK_SECONDS, OLD_SECONDS
    """Time between two counts, and for how long one is shown."""

    def __init__(self, engine: Engine, clock: Clock) -> None:
        self._engine = engine
        self._clock = clock
        self._counted: tuple[float, Any] | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=self.name, daemon=True)

    def start(self) -> None:
        """Counts at once, then every `look_seconds`."""
        self._thread.start()

    def stop(self) -> None:
        """Ends; a read that the store does not answer is left to itself."""
        self._stopping.set()
        self._thread.join(_END_SECONDS)

    def read_again(self) -> None:
        """Reads the store. What failed is logged; the count before is shown until it is too old."""
        began_at = self._clock.monotonic()
        try:
            self._counted = (began_at, self._read())
        except PenstockError as error:
            log.warning("not counted", what=self.name, error=error.detail)
        except Exception:
            log.exception("not counted", what=self.name)

    def describe(self) -> list[Metric]:
        """Empty: nothing is known yet at registration."""
        return []

    def collect(self) -> Iterator[Metric]:
        """What was counted last, unless that is too old."""
        counted = self._counted
        if counted is not None and self._clock.monotonic() - counted[0] <= self.old_seconds:
            yield from self._families(counted[1])

    def _read(self) -> Any:
        """Reads the store."""
        raise NotImplementedError

    def _families(self, found: Any) -> Iterator[Metric]:
        """What `_read` returned, as metrics."""
        raise NotImplementedError

    def _run(self) -> None:
        while not self._stopping.is_set():
            self.read_again()
            self._stopping.wait(self.look_seconds)


class OpenAlerts(StoreCounts):
    """The number of open alerts of each kind, also of those without one."""

    name = "open-alerts"

    def _read(self) -> Mapping[str, int]:
        with snapshot(self._engine) as connection:
            return open_by_kind(connection)

    def _families(self, found: Mapping[str, int]) -> Iterator[Metric]:
        told = "Open alerts that no silence leaves out."
        family = GaugeMetricFamily("penstock_alerts_open", told, labels=["kind", "severity"])
        for kind, rule in RULES.items():
            family.add_metric([kind.value, rule.severity.value], found.get(kind.value, 0))
        yield family


class Fleet(StoreCounts):
    """How many jobs have each health, how many tasks run, and how old the changes are that not all tasks run.

    The health of many jobs takes long to count, so it may be older than the rest: its age is a metric.
    """

    name = "fleet"
    look_seconds, old_seconds = 2 * LOOK_SECONDS, 3 * OLD_SECONDS

    def __init__(self, engine: Engine, clock: Clock, census: Census) -> None:
        super().__init__(engine, clock)
        self._census = census

    def _read(self) -> tuple[FleetCounts, FleetView]:
        now = self._clock.now()
        with snapshot(self._engine) as connection:
            counts = count_fleet(connection)
        self._write_down(lambda connection: note_tasks(connection, counts, now))
        view = self._census.count()
        if view.complete:
            self._write_down(lambda connection: note_health(connection, view.health, view.at))
        return counts, view

    def _write_down(self, write: Callable[[Connection], None]) -> None:
        """A store that takes no writes is no reason to show no metrics."""
        try:
            with transaction(self._engine) as connection:
                write(connection)
        except PenstockError as error:
            log.warning("not written down", what=self.name, error=error.detail)

    def _families(self, found: tuple[FleetCounts, FleetView]) -> Iterator[Metric]:
        counts, view = found
        states = {"running": counts.tasks_running, "not_running": counts.tasks_not_running}
        states["unknown"] = counts.tasks - counts.tasks_running - counts.tasks_not_running
        yield _gauge("penstock_fleet_tasks", "Tasks that should run, by what is heard of them.", "state", states)
        ages = {"0.5": counts.age_p50_seconds, "0.99": counts.age_p99_seconds, "1": counts.age_seconds}
        text = "Age of the oldest change that not all tasks run, over all jobs; 0 for a job that runs all."
        yield _gauge("penstock_convergence_age_seconds", text, "quantile", ages)
        yield GaugeMetricFamily(
            "penstock_fleet_jobs_behind", "Jobs with a change that not all tasks run.", value=counts.jobs_behind
        )
        if view.complete:
            health = {each.value: view.health.get(each, 0) for each in Health}
            yield _gauge("penstock_fleet_jobs", "Jobs by health.", "health", health)
            age = (self._clock.now() - view.at).total_seconds()
            yield GaugeMetricFamily("penstock_fleet_jobs_age_seconds", "Age of the count of jobs by health.", value=age)


def _gauge(name: str, text: str, label: str, values: Mapping[str, float]) -> Metric:
    family = GaugeMetricFamily(name, text, labels=[label])
    for value, number in values.items():
        family.add_metric([value], number)
    return family
