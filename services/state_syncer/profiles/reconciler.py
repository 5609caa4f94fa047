"""A round of profiles: read, decide, write, then ask containers. Beside the rounds of jobs, under the same lease."""

from __future__ import annotations

from penstock.control.logs import logger
from penstock.store.profiles import ProfileRow
from services.state_syncer.host_tasks.dispatcher import WantedHostTasks
from services.state_syncer.host_tasks.next_attempt import Ask, Candidates, GiveUp
from services.state_syncer.host_tasks.outcomes import Attempt, Unanswered
from services.state_syncer.profiles.decide import decide, key_of, request_of
from services.state_syncer.profiles.store import Decided, OpenProfiles, ProfileStore

log = logger(__name__)


class ProfileReconciler:
    """Has the queries of jobs run for a while, to see how fast they are."""

    def __init__(self, store: ProfileStore, host_tasks: WantedHostTasks) -> None:
        self._store = store
        self._host_tasks = host_tasks

    def round(self, leader_epoch: int) -> bool:
        """Brings every open profile as far as it can go now; whether some are open. Raises Fenced, Unavailable."""
        found = self._store.read()
        candidates = Candidates(found.containers, map(key_of, found.rows))
        attempts: list[Attempt] = []
        decided: list[Decided] = []
        for row in found.rows:
            outcome = self._host_tasks.outcome(key_of(row))
            decision = decide(row, candidates, outcome)
            if isinstance(decision, Ask):
                attempt = _attempt(row, decision.container, found)
                if isinstance(attempt, GiveUp):
                    decision = attempt
                else:
                    attempts.append(attempt)
            decided.append(Decided(row, decision, outcome.progress if isinstance(outcome, Unanswered) else ""))
        if decided:
            self._store.write(decided, leader_epoch)
        self._host_tasks.want(attempts, leader_epoch)
        return bool(decided)


def _attempt(row: ProfileRow, container: str, found: OpenProfiles) -> Attempt | GiveUp:
    """What is to be asked, or why it cannot be."""
    try:
        return Attempt(key_of(row), found.containers[container].url, request_of(row))
    except ValueError as error:
        return GiveUp(f"its configuration cannot be read: {error}")
