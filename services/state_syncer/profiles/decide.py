"""What to do about a profile that is asked for: one decision from its row and what is seen. Pure.

Who is asked is recorded before it is, so a new leader asks the same container the same thing.
"""

from __future__ import annotations

from penstock.config.model import JobConfig
from penstock.store.profiles import ProfileRow
from penstock.tasks.host_task import POLICIES, PROFILE
from penstock.tasks.profile import ProfileReport, ProfileRequest
from penstock.tasks.selectors import selector_of
from services.state_syncer.host_tasks.next_attempt import AttemptDecision, Candidates, HostTaskStep, next_attempt
from services.state_syncer.host_tasks.outcomes import AttemptKey, Done, Failed, Outcome


def key_of(row: ProfileRow) -> AttemptKey:
    """The attempt that a row is at. Losses count as failures."""
    return AttemptKey(row.job, PROFILE, row.number, row.container, row.attempts)


def decide(row: ProfileRow, candidates: Candidates, outcome: Outcome) -> AttemptDecision:
    """The next step; `outcome` is that of `key_of(row)`."""
    if isinstance(outcome, Done) and not isinstance(outcome.report, ProfileReport):
        outcome = Failed("the container sent no report")
    ended = row.attempts - (row.container is not None)
    task = HostTaskStep(key_of(row), ended, selector=selector_of(row.config))
    return next_attempt(task, outcome, candidates, POLICIES[PROFILE])


def request_of(row: ProfileRow) -> ProfileRequest:
    """What the container is asked. Raises ValueError (pydantic's) when the configuration cannot be read."""
    config = JobConfig.model_validate(row.config)
    return ProfileRequest(job=row.job, number=row.number, seconds=row.seconds, config=config)
