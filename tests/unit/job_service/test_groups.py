"""Which writes are taken together, and whose error it is when their transaction fails."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from random import Random
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
    ("config", "may"),
    [
        ({"labels": {f"l{number}": "x" for number in range(100)}}, True),
        ({"labels": {f"l{number}": "x" for number in range(1_000)}}, False),
        ({"owner": "x" * 1_000}, True),
        ({"owner": "x" * 100_000}, False),
        ({"slo": [[[1] * 100] * 100] * 100}, False),
    ],
)
def test_a_large_layer_holds_up_nobody_else(config: Any, may: bool) -> None:
    assert may_share(write(config=config), has_key=False) is may


@pytest.mark.parametrize(
    ("jobs", "group"),
    [
        (["a"], "a"),
        (["a", "b", "c"], "abc"),
        (["a", "b", "a", "a", "c", "b"], "abc"),
        ([f"j{number}" for number in range(MOST_IN_GROUP + 5)], [f"j{number}" for number in range(MOST_IN_GROUP)]),
    ],
)
def test_a_group_has_one_write_of_each_job_up_to_a_limit(jobs: list[str], group: Sequence[str]) -> None:
    chosen = next_group([write(job) for job in jobs], Random(1).choice)
    assert [jobs[position] for position in chosen] == list(group)


def test_each_writer_of_a_job_comes_first_as_often() -> None:
    chance, writes = Random(1), [write("a"), write("b"), write("a"), write("a")]
    first = Counter(next_group(writes, chance.choice)[0] for _ in range(300))
    assert first.keys() == {0, 2, 3}
    assert min(first.values()) > 70


LOST, SLOW = Unavailable("lost"), StatementTimedOut("slow")
ENDED, BUG = TransactionEnded("deadlock"), RuntimeError("bug")


@pytest.mark.parametrize(
    ("reached", "error", "of_all"),
    [
        *((Reached.NOTHING, error, True) for error in (LOST, SLOW, ENDED, BUG)),
        (Reached.STATEMENTS, SLOW, True),
        *((Reached.STATEMENTS, error, False) for error in (LOST, ENDED, BUG)),
        (Reached.COMMIT, LOST, True),
        *((Reached.COMMIT, error, False) for error in (SLOW, ENDED, BUG)),
    ],
)
def test_writes_are_repeated_alone_only_where_they_were_certainly_not_done(
    reached: Reached, error: Exception, of_all: bool
) -> None:
    assert ends_for_all(reached, error) is of_all
