"""Rounds of a loop beside a test."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from penstock.control.repeat import repeating


def rounds_go_on(one_round: Callable[[], object]) -> AbstractContextManager[None]:
    """One round after the other until the end of the block."""
    return repeating("rounds", one_round, 0.05)
