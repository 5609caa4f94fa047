"""The log lines and metrics of a round, once it is in the store."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.control.logs import logger
from services.state_syncer import metrics
from services.state_syncer.decide.effects import COMMITTED, FAILED, FORGOTTEN, LogEvent
from services.state_syncer.store.simple import SimpleCommits

log = logger(__name__)
# A release of one package may change every job: beyond this many commits a round logs them as one line.
LOGGED_COMMITS = 500


def log_events(events: Sequence[LogEvent], commit_number: int | None) -> None:
    """Logs and counts what was decided. Commits beyond `LOGGED_COMMITS` are one line, and a debug line each."""
    commits = [event for event in events if event.event == COMMITTED]
    many = len(commits) > LOGGED_COMMITS
    if many:
        log.info("jobs committed", jobs=len(commits), commit=commit_number, revision=max(e.revision for e in commits))
    for event in events:
        if event.event == COMMITTED:
            metrics.COMMITS.labels(event.kind).inc()
            level = log.debug if many else log.info
            fields = {"job": event.job, "revision": event.revision, "kind": event.kind, **event.details}
            level(COMMITTED, commit=commit_number, **fields)
        else:
            _log_other(event, many=len(events) > 2 * LOGGED_COMMITS)


def log_simple(simple: SimpleCommits) -> None:
    """The same of simple commits: beyond `LOGGED_COMMITS` only a sample has a line, at level debug."""
    many = simple.jobs > LOGGED_COMMITS
    if many:
        newest = max(alike.revision for alike in simple.committed)
        log.info("jobs committed", jobs=simple.jobs, commit=simple.number, revision=newest)
    level = log.debug if many else log.info
    for alike in simple.committed:
        metrics.COMMITS.labels(alike.kind).inc(alike.jobs)
        for job, revision in alike.sample:
            level(COMMITTED, job=job, revision=revision, kind=alike.kind, commit=simple.number)


def _log_other(event: LogEvent, *, many: bool) -> None:
    level = log.debug if many else log.info
    if event.event == FAILED:
        metrics.FAILURES.labels(event.kind).inc()
        level = log.warning
    elif event.event == FORGOTTEN:
        metrics.FORGOTTEN.inc()
    level(event.event, job=event.job, revision=event.revision, kind=event.kind, **event.details)
