"""Faults of containers, as alerts. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from penstock.model.alerts import AlertKind
from services.shard_manager.health.failing import Late

KINDS = (AlertKind.CONTAINER_FAILING, AlertKind.CONTAINER_OUTLIER, AlertKind.REPORTS_OLD)


class Fault(NamedTuple):
    """A fault of a container: the kind of alert, a sentence for people, and the figures as JSON."""

    kind: AlertKind
    container: str
    message: str
    details: Mapping[str, Any]


def fault_of_failing(container: str, late: Late) -> Fault:
    """The fault of a container that does not take its shards."""
    message = f"the container sends heartbeats but has not taken {late.shards} of its shards for {late.seconds:.0f} s"
    return Fault(
        AlertKind.CONTAINER_FAILING, container, message, {"shards": late.shards, "seconds": round(late.seconds, 1)}
    )


def fault_of_reports(container: str, age_seconds: float, *, beats: bool) -> Fault:
    """The fault of a container that sends no reports. It holds up the changes of jobs of its shards.

    `beats`: whether its heartbeats come to the Shard Manager; else its row in the store keeps it alive.
    """
    does = "sends heartbeats" if beats else "renews its lease in the store, without heartbeats to the Shard Manager"
    message = f"the container {does}, but the Task Service has had no report of it for {age_seconds:.0f} s"
    return Fault(AlertKind.REPORTS_OLD, container, message, {"age_seconds": round(age_seconds, 1)})
