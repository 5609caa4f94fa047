"""A step of a round that fails does not keep the others from running."""

from __future__ import annotations

import pytest

from penstock.control.errors import Fenced, Unavailable
from penstock.control.steps import in_turn, run_each


def test_all_steps_run_and_the_first_error_is_raised() -> None:
    ran: list[int] = []

    def fails(epoch: int) -> None:
        ran.append(epoch)
        raise Unavailable("first" if len(ran) == 1 else "second")

    with pytest.raises(Unavailable, match="first"):
        in_turn(fails, fails, ran.append)(7)
    assert ran == [7, 7, 7]
    assert run_each((lambda epoch: epoch + 1, lambda _: "x"), 1) == [2, "x"]


def test_nothing_runs_after_a_newer_leader_was_seen() -> None:
    ran: list[int] = []

    def fenced(_: int) -> None:
        raise Fenced("another leads")

    with pytest.raises(Fenced):
        in_turn(fenced, ran.append)(1)
    assert ran == []
