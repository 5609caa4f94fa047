"""Which outputs must be made before the tasks of a job start, and what is asked of a host for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field

from penstock.config.model import JobConfig
from penstock.tasks.host_request import HostRequest


class SinkRequest(HostRequest):
    """Make what `config.output` names, unless it is there, and check that it takes the rows of the query.

    `revision` is that of the write which `config` comes from. `first_generation`: the first that the job ever had,
    above those of a deleted job of the same name.
    """

    kind: Literal["initialize_sink"] = "initialize_sink"
    job: str
    revision: int = Field(ge=1)
    config: JobConfig
    first_generation: int = Field(1, ge=1)

    @property
    def key_number(self) -> int:
        return self.revision

    @property
    def host_config(self) -> JobConfig:
        """The output is made for the rows of the job's query."""
        return self.config


def needs_sink(config: Mapping[str, Any]) -> bool:
    """Whether the output of a complete configuration, as JSON, is one that tasks would have to make.

    A Delta or Postgres table is; so is a folder, which takes the files of one job; so is a Kafka topic whose number of
    partitions the job says. Other topics are as the broker makes them.
    """
    output = config.get("output") or {}
    if output.get("type") == "kafka":
        return output.get("key_groups") is not None
    return output.get("type") in ("delta", "files", "postgres")
