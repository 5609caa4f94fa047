"""From what tasks report about their inputs to alerts of jobs. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.model.alerts import INPUT_ALERTS, AlertKind

Alerts = dict[tuple[AlertKind, str], tuple[str, Mapping[str, Any]]]


@dataclass(frozen=True, slots=True)
class InputReports:
    """What `count` tasks of a job report of one kind of alert: the first of them, and what the very first says."""

    job: str
    kind: str
    count: int
    tasks: Sequence[int]
    reason: str


def alerts_of(reports: Iterable[InputReports]) -> Alerts:
    """By kind and job: the reason of the task of the lowest index, and the first tasks that report the kind."""
    kinds = {kind.value: kind for kind in INPUT_ALERTS}
    return {(kinds[each.kind], each.job): _alert(each) for each in reports if each.kind in kinds}


def _alert(reports: InputReports) -> tuple[str, Mapping[str, Any]]:
    others = reports.count - 1
    more = f" (and {others} more {'task' if others == 1 else 'tasks'})" if others else ""
    return f"task {reports.tasks[0]}: {reports.reason}{more}", {"tasks": list(reports.tasks)}
