"""What is asked of a host that analyses a job without running it, and what it answers."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from penstock.config.declare import Carried, Model, Name
from penstock.config.model import JobConfig
from penstock.config.problems import Problem
from penstock.tasks.host_request import HostRequest

MADE_BY_WRITERS = frozenset({"topic_exists", "subject_exists"})
"""Those of `MAY_COME_LATER` about a topic: what writes there makes it, and the subject of its schemas."""
MAY_COME_LATER = MADE_BY_WRITERS | {"table_exists"}
"""The rules of problems that end by themselves, when another job has made its output."""

OFFSET_KEPT = "offset_kept"
"""The rule of a problem of jobs that have not begun to read yet: where they are to begin is no more."""


class Operator(Carried):
    """An operator of the query that brings rows together. `by`: the columns that the rows share."""

    operation: str
    inputs: tuple[str, ...]
    by: tuple[str, ...]
    colocated: bool


class AnalysisReport(Carried):
    """`columns`: the types of the query's result by name; None when it could not be analysed.

    `unchecked`: why a check could not be made, as when a server did not answer. `logins`: those of the container that
    a server refuses. They are no fault of the job, so they refuse no write; they are in `unchecked`, too.
    `notes`: what is found and refuses nothing, such as a column that no sampled record has.
    """

    problems: tuple[Problem, ...] = ()
    unchecked: tuple[str, ...] = ()
    columns: dict[str, str] | None = None
    operators: tuple[Operator, ...] = ()
    logins: tuple[Problem, ...] = ()
    notes: tuple[str, ...] = ()


class AnalysisRequest(HostRequest):
    """Analyse the job as it would start. `number` tells one request from another. `within_seconds`: for how long the
    caller waits; its container says so."""

    Report: ClassVar[type[Model] | None] = AnalysisReport

    kind: Literal["analyse"] = "analyse"
    job: Name
    number: int = Field(ge=1)
    config: JobConfig
    within_seconds: float | None = Field(None, ge=0, exclude_if=lambda seconds: seconds is None)

    @property
    def key_number(self) -> int:
        return self.number

    @property
    def host_config(self) -> JobConfig:
        """The query needs the job's package."""
        return self.config

    @property
    def queue(self) -> str:
        """An analysis waits for nothing else of the job."""
        return f"analyse/{self.number}"
