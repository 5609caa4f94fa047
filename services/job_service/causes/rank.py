"""The causes of a job that is not healthy, the likeliest first. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain

from penstock.model.causes import CauseKind, Certainty
from penstock.wire.overview import AlertRow
from services.job_service.causes import cell, changes, crashes, lag, under_way
from services.job_service.causes.facts import Cause, Facts

_RULES = (
    cell.causes_of_processes,
    cell.causes_of_room,
    cell.causes_of_new_lives,
    cell.causes_of_gone_containers,
    cell.causes_of_containers,
    changes.causes_of_layers,
    changes.causes_of_failed_changes,
    under_way.causes_of_present_changes,
    changes.causes_of_recent_changes,
    changes.causes_of_restores,
    crashes.causes_of_rollouts,
    crashes.causes_of_errors,
    crashes.causes_of_inputs,
    crashes.causes_of_late_rows,
    lag.causes_of_upstream,
    lag.causes_of_lag,
    lag.causes_of_unknown_lag,
)
_CERTAINTIES, _KINDS = list(Certainty), list(CauseKind)


def causes_of(facts: Facts) -> list[Cause]:
    """The causes that the rules find: by certainty, then in the order of the kinds. A healthy job that runs what it
    should has none, but for late rows that it drops."""
    named = (each._replace(advice=each.advice.replace(" JOB", f" {facts.job.job}")) for each in _without_repeats(facts))
    return sorted(named, key=_place)


def open_alerts(facts: Facts, causes: Iterable[Cause]) -> list[str]:
    """A sentence for each open alert about the job whose message no cause has, also of a job that is well."""
    told = [text for cause in causes for text in cause.evidence]
    return [
        f"alert {alert.kind} is open since {alert.raised_at:%Y-%m-%d %H:%M} UTC{_silenced(alert)}: {alert.message}"
        for alert in facts.own_alerts
        if not any(alert.message in text for text in told)
    ]


def _silenced(alert: AlertRow) -> str:
    return "" if alert.silence is None else f" (left out of lists by silence {alert.silence})"


def _place(cause: Cause) -> tuple[int, int]:
    return _CERTAINTIES.index(cause.certainty), _KINDS.index(cause.kind)


def _without_repeats(facts: Facts) -> Iterator[Cause]:
    """A kind that two rules find in the same words is given once, as the surer one."""
    best: dict[tuple[CauseKind, str], Cause] = {}
    rules = (crashes.causes_of_late_rows,) if facts.is_well else _RULES
    for cause in chain.from_iterable(rule(facts) for rule in rules):
        known = best.get((cause.kind, cause.summary))
        if known is None or _place(cause) < _place(known):
            best[cause.kind, cause.summary] = cause
    return iter(best.values())
