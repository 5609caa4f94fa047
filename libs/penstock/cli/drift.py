"""How a folder of jobs differs from the cell. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, NamedTuple

from penstock.cli.output import changes


class Kind(StrEnum):
    """What `apply` does with a job."""

    CREATE = "create"
    CHANGE = "change"
    SAME = "same"
    GOING = "being deleted"
    PRUNE = "prune"
    EXTRA = "not in the folder"


class Present(NamedTuple):
    """The base layer of a job that exists. `going`: the job is being deleted."""

    config: Mapping[str, Any] | None
    version: int
    going: bool = False


class Step(NamedTuple):
    """A job, what is to be done with it, and why: a line for each field. `version`: of the base layer, 0: none."""

    job: str
    kind: Kind
    lines: tuple[str, ...] = ()
    content: Mapping[str, Any] | None = None
    version: int = 0


def steps(
    wanted: Mapping[str, Mapping[str, Any]], present: Mapping[str, Present], others: Mapping[str, int], *, prune: bool
) -> list[Step]:
    """What brings the cell to the folder, by name: `wanted` are the jobs of the folder, `present` those of them that
    exist, `others` the versions of those that the filters name."""
    kind = Kind.PRUNE if prune else Kind.EXTRA
    found = [_step(job, content, present.get(job)) for job, content in wanted.items()]
    found += [Step(job, kind, version=version) for job, version in others.items() if job not in wanted]
    return sorted(found, key=lambda step: step.job)


def _step(job: str, content: Mapping[str, Any], present: Present | None) -> Step:
    if present is None:
        return Step(job, Kind.CREATE, content=content)
    if present.going:
        return Step(job, Kind.GOING)
    lines = tuple(changes(present.config, content))
    return Step(job, Kind.CHANGE if lines else Kind.SAME, lines, content, present.version)
