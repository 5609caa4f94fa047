"""From what tasks report about their inputs to alerts of jobs. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from penstock.model.alerts import INPUT_ALERTS, AlertKind

Alerts = dict[tuple[AlertKind, str], tuple[str, Mapping[str, Any]]]


@dataclass(frozen=True, slots=True)
class InputReport:
    """What is wrong with the inputs of a task, by kind of alert."""

    job: str
    index: int
    problems: Mapping[str, str]


def alerts_of(reports: Iterable[InputReport]) -> Alerts:
    """By kind and job: the reason of the task of the lowest index, and the tasks that report the kind."""
    told: defaultdict[tuple[AlertKind, str], dict[int, str]] = defaultdict(dict)
    for report in reports:
        for kind in (kind for kind in INPUT_ALERTS if kind in report.problems):
            told[kind, report.job][report.index] = report.problems[kind]
    return {key: _alert(by_index) for key, by_index in told.items()}


def _alert(by_index: Mapping[int, str]) -> tuple[str, Mapping[str, Any]]:
    indices = sorted(by_index)
    first = f"task {indices[0]}: {by_index[indices[0]]}"
    others = len(indices) - 1
    more = f" (and {others} more {'task' if others == 1 else 'tasks'})" if others else ""
    return first + more, {"tasks": indices}
