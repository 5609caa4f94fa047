"""How many jobs may be rescaled at once, and which ones come first."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.config.classify import NO_DIFFERENCE
from services.state_syncer.budget import Budget, Candidate, Queue
from services.state_syncer.plan import Begin, JobView


def candidate(job: str, priority: int = 0, revision: int = 1) -> Candidate[Begin]:
    config: dict[str, Any] = {"priority": priority}
    return Candidate(JobView(job, revision, 0, False, config), Begin(config, NO_DIFFERENCE))


@pytest.mark.parametrize(
    ("budget", "jobs", "limit"),
    [
        (Budget(0.1, 20), 1, 1),
        (Budget(0.1, 20), 0, 1),
        (Budget(0.1, 20), 50, 5),
        (Budget(0.1, 20), 10_000, 20),
        (Budget(1.0, 3), 10, 3),
    ],
)
def test_the_smaller_of_share_and_count_and_at_least_one(budget: Budget, jobs: int, limit: int) -> None:
    assert budget.limit(jobs) == limit


CANDIDATES = st.lists(
    st.tuples(st.sampled_from("abcdefgh"), st.integers(0, 2), st.integers(1, 3)), unique_by=lambda entry: entry[0]
)


@given(CANDIDATES, st.integers(-1, 4))
def test_priority_goes_first_then_the_oldest_write_then_the_name(entries: list[Any], room: int) -> None:
    queue = Queue(room)
    late = [queue.offer(candidate(*entry)) for entry in entries]
    picked = [each.view.job for each in queue.picked()]
    order = [job for job, _, _ in sorted(entries, key=lambda entry: (-entry[1], entry[2], entry[0]))]
    assert picked == order[: max(0, room)]
    assert {each.view.job for each in late if each is not None} == set(order[max(0, room) :])
