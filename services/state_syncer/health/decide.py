"""From the health of jobs to the alerts about it. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from penstock.model.health import Health, Verdict

# While a task has one of these, nothing proves that the alert is over.
_CRASH_UNDECIDED = frozenset([Health.UNKNOWN, Health.STARTING])
_LAG_UNDECIDED = frozenset([Health.UNKNOWN, Health.STARTING, Health.CRASHING, Health.HELD])


class Alerts(NamedTuple):
    """Of one kind: the messages by job of the alerts that are raised, and the jobs whose open alert stays as it is."""

    raised: Mapping[str, str]
    kept: frozenset[str]


def crash_alerts(verdicts: Mapping[str, Verdict]) -> Alerts:
    """Jobs with a task that crashes again and again. The alert ends when all their tasks are known to do better."""
    raised = {job: found.reasons[Health.CRASHING] for job, found in verdicts.items() if _has(found, Health.CRASHING)}
    return Alerts(raised, frozenset(job for job, found in verdicts.items() if found.reasons.keys() & _CRASH_UNDECIDED))


def lag_alerts(verdicts: Mapping[str, Verdict], lagged: Collection[str]) -> Alerts:
    """Jobs over their SLO now and in each minute before (`lagged`). The alert ends when all their tasks are known to be
    within the SLO."""
    lagging = {job: found.reasons[Health.LAGGING] for job, found in verdicts.items() if _has(found, Health.LAGGING)}
    undecided = {job for job, found in verdicts.items() if found.reasons.keys() & _LAG_UNDECIDED}
    raised = {job: reason for job, reason in lagging.items() if job in lagged}
    return Alerts(raised, frozenset(undecided | lagging.keys()))


def _has(verdict: Verdict, health: Health) -> bool:
    return health in verdict.reasons
