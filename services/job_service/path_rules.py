"""Which paths a write may give its job. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from penstock.config.model import JobConfig
from penstock.config.paths import path_fields, path_problems
from penstock.config.problems import refusal
from penstock.config.validate import read_merged
from penstock.control.errors import InvalidConfig
from penstock.model.jobs import StoredJob
from services.job_service.writes import Layers, expected


def require_paths(job: StoredJob, layers: Layers, after: JobConfig, roots: Sequence[str]) -> None:
    """Raises InvalidConfig when a write gives its job, as it is stored, a path below none of the roots.

    What the job has or runs with may stay, so that it can be stopped, overridden and taken back. The host refuses such
    a path at the next start of a task.
    """
    found = tuple(path_problems(after, roots))
    if found:
        found = tuple(path_problems(after, roots, kept=frozenset(_paths_of(job, layers))))
    if found:
        raise refusal(found)


def _paths_of(job: StoredJob, layers: Layers) -> Iterator[tuple[str, str]]:
    """The paths that a job is to have and those that it runs with, by field."""
    configurations: list[Mapping[str, Any]] = [expected(job, layers)]
    if job.running is not None:
        configurations.append(job.running)
    for each in configurations:
        with suppress(InvalidConfig):  # one that cannot be read is no reason for a path
            yield from path_fields(read_merged(each))
