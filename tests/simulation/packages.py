"""Versions of the simulated jobs' package: the name tells how it behaves."""

from __future__ import annotations

from random import Random

BREAKS, CRASHES = "breaks", "crashes"


def version(number: int, random: Random) -> str:
    """A release, of which some are bad."""
    kind = random.choice(("", "", BREAKS, CRASHES))
    return f"{number}{kind}"


def breaks(version: str) -> bool:
    """Whether tasks of it do not start."""
    return version.endswith(BREAKS)


def crashes(version: str) -> bool:
    """Whether tasks of it end at their first batch."""
    return version.endswith(CRASHES)


def is_bad(version: str) -> bool:
    """Whether no task of it ever finishes a batch."""
    return breaks(version) or crashes(version)
