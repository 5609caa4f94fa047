"""The properties that every kind of host task declares. Containers know nothing else about a kind. Pure."""

from __future__ import annotations

from typing import ClassVar

from penstock.config.declare import Carried, Model
from penstock.config.model import JobConfig


class HostRequest(Carried):
    """The request of one kind of host task; a kind overrides what differs.

    `kind` is the tag of the union in `penstock.tasks.host_task`. `Report` is the model of the answer, None without one.
    """

    Report: ClassVar[type[Model] | None] = None

    kind: str
    job: str

    @property
    def key_number(self) -> int:
        """Identifies the host task among those of its kind and job: a generation, a revision, or a savepoint's
        number."""
        raise NotImplementedError

    @property
    def host_config(self) -> JobConfig | None:
        """The configuration whose package and Spark settings the host must have; None: any shared host will do."""
        return None

    @property
    def configs(self) -> tuple[JobConfig, ...]:
        """The configurations whose queries and outputs the host task works with: it needs their connections."""
        return () if self.host_config is None else (self.host_config,)

    @property
    def queue(self) -> str:
        """A host carries out the tasks of one queue one after the other."""
        return f"{self.job}/*"

    @property
    def known_state_bytes(self) -> int | None:
        """The size of the job's keyed state as its tasks reported it; None is unknown."""
        return None

    @property
    def writes_generation(self) -> int | None:
        """The generation that is written from stopped tasks: no task of the job may be meant to run meanwhile."""
        return None

    @property
    def fills_generation(self) -> int | None:
        """The generation that is filled while tasks of the job run in an earlier one."""
        return None

    @property
    def after_commit(self) -> int | None:
        """The commit that stopped the job's tasks: older specs say nothing about the request. None: it is not known."""
        return None

    @property
    def removes_generation(self) -> int | None:
        """The generation whose files are deleted: no task may use it."""
        return None
