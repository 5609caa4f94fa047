"""Which writes are taken together, and whose error it is when their transaction fails."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.control.errors import StatementTimedOut, TransactionEnded, Unavailable
from penstock.model.jobs import Action
from services.job_service.groups import MOST_IN_GROUP, Reached, ends_for_all, may_share, next_group
from services.job_service.writes import Write


def write(job: str = "j", action: Action = Action.PATCH, config: Any = None) -> Write:
    return Write(action, job, "ann", "oncall", config)


@pytest.mark.parametrize(
    ("asked", "has_key", "may"),
    [
        (write(config={"priority": 3, "labels": {"a": "b"}}), False, True),
        (write(action=Action.PUT, config={}), False, True),
        (write(action=Action.DROP), False, True),
        (write(config={"priority": 3}), True, False),
        (write(config={"priority": 3, "task_count": 2}), False, False),
        (write(config={"unknown": 1}), False, False),
        (write(action=Action.CREATE, config={"priority": 3}), False, False),
        (write(action=Action.REVERT), False, False),
        (write(action=Action.DELETE), False, False),
    ],
)
def test_writes_of_layers_that_no_analysis_depends_on_may_share(asked: Write, has_key: bool, may: bool) -> None:
    assert may_share(asked, has_key=has_key) is may


@pytest.mark.parametrize(
    ("jobs", "group"),
    [
        (["a"], [0]),
        (["a", "b", "c"], [0, 1, 2]),
        (["a", "b", "a", "a", "c", "b"], [0, 1, 4]),
        ([f"j{number}" for number in range(MOST_IN_GROUP + 5)], list(range(MOST_IN_GROUP))),
    ],
)
def test_a_group_has_the_first_write_of_each_job_up_to_a_limit(jobs: list[str], group: list[int]) -> None:
    assert list(next_group([write(job) for job in jobs])) == group


def test_the_writes_of_a_job_are_taken_in_the_order_in_which_they_came() -> None:
    waiting = [(job, number) for number, job in enumerate("abacbaab")]
    taken: list[tuple[str, int]] = []
    while waiting:
        chosen = set(next_group([write(job) for job, _ in waiting]))
        taken += [each for at, each in enumerate(waiting) if at in chosen]
        waiting = [each for at, each in enumerate(waiting) if at not in chosen]
    for job in "abc":
        numbers = [number for name, number in taken if name == job]
        assert numbers == sorted(numbers) == [number for number, name in enumerate("abacbaab") if name == job]


LOST, SLOW = Unavailable("lost"), StatementTimedOut("slow")
ENDED, BUG = TransactionEnded("deadlock"), RuntimeError("bug")


@pytest.mark.parametrize(
    ("reached", "error", "of_all"),
    [
        *((Reached.NOTHING, error, True) for error in (LOST, SLOW, ENDED, BUG)),
        *((Reached.STATEMENTS, error, False) for error in (LOST, SLOW, ENDED, BUG)),
        (Reached.COMMIT, LOST, True),
        *((Reached.COMMIT, error, False) for error in (SLOW, ENDED, BUG)),
    ],
)
def test_writes_are_repeated_alone_only_where_they_were_certainly_not_done(
    reached: Reached, error: Exception, of_all: bool
) -> None:
    assert ends_for_all(reached, error) is of_all
