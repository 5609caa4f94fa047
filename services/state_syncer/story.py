"""What the log and the metrics say about a decision once it is in the store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from penstock.control.logs import logger
from penstock.store.records import CommittedAlike
from services.state_syncer import metrics
from services.state_syncer.moves import Finish, Hold, Look, PlanDecision, Record, Resume, Stumble
from services.state_syncer.plan import (
    AwaitStopped,
    Begin,
    Commit,
    Decision,
    Fail,
    Forget,
    Held,
    JobView,
    Nothing,
    Upgrade,
    Wait,
    field_names,
)
from services.state_syncer.rollout import End, Halt, Note, Roll, RolloutDecision, Settle, Stay, describe

log = logger(__name__)
# A release of one package may change every job: beyond this many commits a round logs them as one line.
LOGGED_COMMITS = 500


class Story(NamedTuple):
    """One line of log: `kind` of a commit or failure, and what else there is to say."""

    event: str
    job: str
    revision: int
    kind: str
    details: Mapping[str, Any]


COMMITTED, WAITS, FAILED, STOPPING, FORGOTTEN, RESCALING, RESUMED, ROLLING, ROLLED_OUT, REJECTED = (
    "job committed",
    "job waits",
    "job failed to sync",
    "job stops",
    "job forgotten",
    "job rescales",
    "job resumes",
    "job rolls",
    "package rolled out",
    "package rejected",
)
RESCALE, ROLLOUT = "rescale", "rollout"


def story_of(view: JobView, decision: Decision) -> Story | None:
    """The line about a decision; None when there is nothing to tell."""
    match decision:
        case Commit():
            return Story(COMMITTED, view.job, decision.revision, _commit_kind(view, decision), {})
        case Wait(detail, difference):
            details = {"detail": detail, "fields": field_names(difference)}
            return Story(WAITS, view.job, view.revision, difference.kind.name.lower(), details)
        case Fail(detail, kind, fields):
            return Story(FAILED, view.job, view.revision, kind.name.lower(), {"error": detail, "fields": fields})
        case AwaitStopped(presence):
            return Story(STOPPING, view.job, view.revision, "delete", {"tasks": presence.value})
        case Forget():
            return Story(FORGOTTEN, view.job, view.revision, "delete", {})
        case Nothing() | Held() | Begin() | Upgrade():
            return None


def stories_of_plan(view: JobView, decision: PlanDecision) -> list[Story]:
    """The lines about a decision on a plan."""
    plan = decision.plan
    about = {"step": plan.step.value, "to_generation": plan.generation, "container": plan.container}
    match decision:
        case Hold() | Record():
            return [Story(RESCALING, view.job, plan.revision, RESCALE, about)]
        case Finish():
            return [Story(COMMITTED, view.job, plan.revision, RESCALE, {"seconds": dict(decision.seconds)})]
        case Resume():
            resumed = Story(RESUMED, view.job, decision.commit.revision, RESCALE, about)
            return [resumed, *_failure(view, decision.failure)]
        case Stumble():
            return _failure(view, decision.failure)
        case Look():
            return []


def stories_of_rollout(view: JobView, decision: RolloutDecision) -> list[Story]:
    """The lines about a decision on a rollout."""
    plan = decision.plan
    match decision:
        case Roll():
            story = Story(ROLLING, view.job, plan.revision, ROLLOUT, {"step": describe(plan)})
        case Settle():
            story = Story(ROLLED_OUT, view.job, plan.revision, ROLLOUT, {"tasks": plan.upgraded})
        case Halt(_, rejected):
            story = Story(REJECTED, view.job, plan.revision, ROLLOUT, {"package": rejected.package, "why": plan.why})
        case End(_, commit):
            story = Story(COMMITTED, view.job, commit.revision, _commit_kind(view, commit), {})
        case Note() | Stay():
            return []
    return [story]


def _failure(view: JobView, failure: Fail | None) -> list[Story]:
    story = None if failure is None else story_of(view, failure)
    return [] if story is None else [story]


def _commit_kind(view: JobView, commit: Commit) -> str:
    if view.running is None:
        return "first"
    if commit.stopping:
        return "delete"
    return "restart" if commit.restarts > view.running.restarts else commit.difference.kind.name.lower()


def tell(stories: Sequence[Story], commit_number: int | None) -> None:
    """Logs and counts what a round did. Commits beyond `LOGGED_COMMITS` are one line, and a debug line each."""
    commits = [story for story in stories if story.event == COMMITTED]
    many = len(commits) > LOGGED_COMMITS
    if many:
        log.info("jobs committed", jobs=len(commits), commit=commit_number, revision=max(s.revision for s in commits))
    for story in stories:
        if story.event == COMMITTED:
            metrics.COMMITS.labels(story.kind).inc()
            level = log.debug if many else log.info
            fields = {"job": story.job, "revision": story.revision, "kind": story.kind, **story.details}
            level(COMMITTED, commit=commit_number, **fields)
        else:
            _tell_other(story)


def tell_simple(committed: Sequence[CommittedAlike], commit_number: int | None, settled: int = 0) -> None:
    """Logs and counts what the set-based way did: as `tell`, but beyond `LOGGED_COMMITS` only a sample by name."""
    jobs = sum(alike.jobs for alike in committed)
    many = jobs > LOGGED_COMMITS
    if many:
        log.info("jobs committed", jobs=jobs, commit=commit_number, revision=max(c.revision for c in committed))
    level = log.debug if many else log.info
    for alike in committed:
        metrics.COMMITS.labels(alike.kind).inc(alike.jobs)
        for job, revision in alike.sample:
            level(COMMITTED, job=job, revision=revision, kind=alike.kind, commit=commit_number)
    if settled:
        log.info("jobs rolled out", jobs=settled)


def _tell_other(story: Story) -> None:
    level = log.info
    if story.event == FAILED:
        metrics.FAILURES.labels(story.kind).inc()
        level = log.warning
    elif story.event == FORGOTTEN:
        metrics.FORGOTTEN.inc()
    level(story.event, job=story.job, revision=story.revision, kind=story.kind, **story.details)
