"""Jobs with their state and their health: expected, running and reported side by side.

`penstock.store.health` has the states, `penstock.model.health` decides about health and convergence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection, text

from penstock.model.health import Health
from penstock.model.jobs import JobState
from penstock.store import health as health_facts
from penstock.store.health import JobHealth, read_named, read_page
from penstock.wire.jobs import JobSummary
from services.job_service.store.flows import readers_by_pattern

# Health is decided of jobs that were read. So a page of one health reads up to so many jobs, a part at a time.
READ_AT_ONCE = 1_000
MOST_READ = 5_000
_BLOCKED = text("SELECT job FROM sync_state WHERE job = ANY(:names) AND state IN ('quarantined', 'failed')")
_RELEASE = text(
    """
    UPDATE sync_state SET state = 'pending', detail = 'released', failures = 0, next_attempt_at = NULL,
        revision = released.revision
    FROM unnest(CAST(:names AS text[]), CAST(:revisions AS bigint[])) AS released (job, revision)
    WHERE sync_state.job = released.job AND state IN ('quarantined', 'failed')
    """
)


class JobsPage(NamedTuple):
    """Jobs by name. `last`: the name after which the next page begins; None when nothing follows."""

    jobs: Sequence[JobSummary]
    last: str | None


def status(connection: Connection, name: str) -> JobSummary | None:
    """One job with its whole reason; None when there is none of this name."""
    found = read_named(connection, [name])
    return _summary(found[0]) if found else None


def named(connection: Connection, names: Sequence[str]) -> list[JobSummary]:
    """Those of these jobs that exist, by name; their reasons in one line."""
    return [_in_a_line(_summary(job)) for job in read_named(connection, names)]


def users_of(connection: Connection, package: str | None, topic: str | None) -> set[str] | None:
    """The names of the jobs that use a package and a topic, as the filters of `page` say; None without either."""
    if package is None and topic is None:
        return None
    by_pattern = () if topic is None else readers_by_pattern(connection, topic)
    return health_facts.users_of(connection, package=package, topic=topic, by_pattern=by_pattern)


def page(
    connection: Connection,
    *,
    limit: int,
    after: str = "",
    prefix: str = "",
    owner: str | None = None,
    state: JobState | None = None,
    package: str | None = None,
    topic: str | None = None,
    health: Health | None = None,
    most_read: int = MOST_READ,
) -> JobsPage:
    """At most `limit` jobs by name, from after `after`, that match all the filters given; their reasons in one line.

    With `health` at most `most_read` jobs are read, so the page may be short, or empty, although others follow.
    """
    by_pattern = () if topic is None else readers_by_pattern(connection, topic)
    named = {"package": package, "topic": topic, "by_pattern": by_pattern}
    filters: dict[str, Any] = {"prefix": prefix, "owner": owner, "state": state, **named}
    at_once = limit if health is None else min(READ_AT_ONCE, most_read)
    found: list[JobSummary] = []
    for _ in range(max(1, most_read // at_once) if health is not None else 1):
        read = read_page(connection, limit=at_once, after=after, crashed=health is Health.CRASHING, **filters)
        for job in read:
            after = job.facts.job
            if health in (None, job.verdict.health):
                found.append(_in_a_line(_summary(job)))
            if len(found) == limit:
                return JobsPage(found, after)
        if len(read) < at_once:
            return JobsPage(found, None)
    return JobsPage(found, after)


def _summary(job: JobHealth) -> JobSummary:
    facts, verdict = job
    return JobSummary(
        job=facts.job,
        owner=facts.owner,
        state=facts.state,
        revision=facts.revision,
        running_revision=facts.running_revision,
        generation=facts.generation,
        restarts=facts.restarts,
        converged=verdict.converged,
        health=verdict.health,
        reason=verdict.reason,
    )


def _in_a_line(job: JobSummary) -> JobSummary:
    line, more, _ = job.reason.partition("\n")
    return job.model_copy(update={"reason": line}) if more else job


def blocked(connection: Connection, names: Sequence[str]) -> set[str]:
    """The jobs among `names` that the State Syncer tries no more, or only later: there is something to release."""
    return set(connection.execute(_BLOCKED, {"names": list(names)}).scalars()) if names else set()


def release(connection: Connection, revisions: Mapping[str, int]) -> None:
    """Lets the State Syncer try jobs again, each at its revision."""
    if revisions:
        connection.execute(_RELEASE, {"names": list(revisions), "revisions": list(revisions.values())})
