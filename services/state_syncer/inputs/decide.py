"""From what tasks report about their inputs to alerts of jobs. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.model.alerts import INPUT_ALERTS, AlertKind
from penstock.model.health import AGAIN

Alerts = dict[tuple[AlertKind, str], tuple[str, Mapping[str, Any]]]


@dataclass(frozen=True, slots=True)
class InputReports:
    """What `count` tasks of a job report of one kind of alert: the first of them, and what the very first says."""

    job: str
    kind: str
    count: int
    tasks: Sequence[int]
    reason: str


@dataclass(frozen=True, slots=True)
class OpenAlert:
    """The open alert `input_unreadable` of a job: what it says, and of which tasks."""

    job: str
    message: str
    tasks: Sequence[int]


@dataclass(frozen=True, slots=True)
class Idle:
    """A task that does not run. `crashes`: in a row; `names_topic`: whether the newest of them names a topic that is
    gone or may not be read."""

    job: str
    index: int
    crashes: int
    names_topic: bool


def alerts_of(reports: Iterable[InputReports], told: Iterable[OpenAlert] = (), idle: Iterable[Idle] = ()) -> Alerts:
    """By kind and job: the reason of the task of the lowest index, and the first tasks that report the kind.

    A task whose topic is gone ends, and reports nothing. So an open alert `input_unreadable` stays for each of its
    tasks that does not run, unless it crashes again and again by another error."""
    kinds = {kind.value: kind for kind in INPUT_ALERTS}
    found = {(kinds[each.kind], each.job): _alert(each) for each in reports if each.kind in kinds}
    held_by_topic = {(each.job, each.index) for each in idle if _may_wait_for_topic(each)}
    for each in told:
        waiting = [index for index in each.tasks if (each.job, index) in held_by_topic]
        if waiting:
            key = (AlertKind.INPUT_UNREADABLE, each.job)
            message, details = found.get(key, (each.message, {"tasks": []}))
            found[key] = message, {"tasks": sorted({*details["tasks"], *waiting})}
    return found


def _may_wait_for_topic(task: Idle) -> bool:
    """Spark ends a task of a topic that is gone with an error of its own, and its host may end, too. A start after that
    would be refused for the topic: a task that crashes again and again by another error waits for no topic."""
    return task.names_topic or task.crashes < AGAIN


def _alert(reports: InputReports) -> tuple[str, Mapping[str, Any]]:
    others = reports.count - 1
    more = f" (and {others} more {'task' if others == 1 else 'tasks'})" if others else ""
    return f"task {reports.tasks[0]}: {reports.reason}{more}", {"tasks": list(reports.tasks)}
