"""Prometheus metrics, computed from the container's summary at each scrape."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

from prometheus_client import Counter as PrometheusCounter
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from penstock.model.reports import TaskState
from services.task_manager.decide.model import HostPhase
from services.task_manager.reporting import Summary

_COUNTERS = {
    "task_starts": "Task starts sent to a host.",
    "task_restarts": "Task starts after a crash.",
    "task_crashes": "Tasks that ended without being stopped, did not start, or lost their host.",
    "host_starts": "Spark hosts started.",
    "host_evacuations": "Spark hosts left by their tasks because of a task that did not stop.",
}

FULL_SNAPSHOTS = PrometheusCounter("penstock_full_snapshots", "Full snapshots of task specs that were fetched.")
DIFFERENCES = PrometheusCounter(
    "penstock_spec_differences", "Times that the task specs differed from those of the Task Service by their digest."
)


class ContainerCollector(Collector):
    """A collector for the container of this process."""

    def __init__(self, summary: Callable[[], Summary]) -> None:
        self._summary = summary

    def describe(self) -> list[Metric]:
        """Empty: collecting at registration would need a running container."""
        return []

    def collect(self) -> Iterator[Metric]:
        """All metrics at this moment."""
        summary = self._summary()
        yield from _gauges(summary)
        yield _skew(summary)
        yield _by_state("penstock_tasks", "Tasks on hosts, and tasks that wait for a start.", _tasks(summary))
        hosts = Counter(host.phase.value for host in summary.observed.hosts.values())
        yield _by_state("penstock_hosts", "Spark hosts.", {phase.value: hosts[phase.value] for phase in HostPhase})
        for name, text in _COUNTERS.items():
            yield CounterMetricFamily(f"penstock_{name}", text, value=summary.totals.get(name, 0))


def _gauges(summary: Summary) -> Iterator[Metric]:
    double = "Seconds in which a task ran here although another container might have run it; must be 0."
    past = "Seconds in which a task still ran here after its lease had run out: the time to stop it."
    yield GaugeMetricFamily("task_double_run_seconds", double, value=summary.double_run_seconds)
    yield GaugeMetricFamily("penstock_task_past_lease_seconds", past, value=summary.past_lease_seconds)
    yield GaugeMetricFamily(
        "penstock_lease_seconds_left", "Seconds until the container's lease runs out.", value=summary.lease_seconds_left
    )
    yield GaugeMetricFamily("penstock_shards_owned", "Shards that the container owns.", value=len(summary.shards))


def _skew(summary: Summary) -> Metric:
    text = "How far unread rows of a task's inputs lie behind the latest event time that the task has read."
    family = GaugeMetricFamily("penstock_task_event_time_skew_seconds", text, labels=["task"])
    for task, seconds in summary.event_time_skew_seconds.items():
        family.add_metric([task], seconds)
    return family


def _tasks(summary: Summary) -> dict[str, int]:
    states = Counter(task.state.value for task in summary.observed.tasks.values())
    crashed = summary.observed.crashes.keys() - summary.observed.tasks.keys()
    counts = {state.value: states[state.value] for state in TaskState}
    return {**counts, TaskState.CRASHED.value: len(crashed), "waiting": summary.waiting}


def _by_state(name: str, text: str, counts: dict[str, int]) -> Metric:
    family = GaugeMetricFamily(name, text, labels=["state"])
    for state, number in counts.items():
        family.add_metric([state], number)
    return family
