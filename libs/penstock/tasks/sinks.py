"""Which outputs must be made before the tasks of a job start, and what is asked of a host for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field

from penstock.config.model import JobConfig
from penstock.tasks.host_request import HostRequest

_DECIDES_PLACEMENT = ("package", "query", "args", "inputs", "tables", "spark_settings")


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


def prepared_part(config: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a complete configuration, as JSON, that a host makes or checks before tasks start; empty: nothing.

    Besides an output that must be made, it is the query of a job with several tasks whose key only Spark can follow:
    a Python query, or one over several inputs, whose keys may differ in type. A host refuses it before a task starts.
    """
    part = {"output": config["output"]} if needs_sink(config) else {}
    if _needs_placement(config):
        part |= {name: config.get(name) for name in _DECIDES_PLACEMENT}
    return part


def _needs_placement(config: Mapping[str, Any]) -> bool:
    query, inputs = config.get("query") or {}, config.get("inputs") or {}
    return config.get("task_count", 1) > 1 and (query.get("python") is not None or len(inputs) > 1)


def needs_sink(config: Mapping[str, Any]) -> bool:
    """Whether the output of a complete configuration, as JSON, is one that tasks would have to make.

    A Delta or Postgres table is; so is a folder, which takes the files of one job; so is a Kafka topic whose number of
    partitions the job says. Other topics are as the broker makes them.
    """
    output = config.get("output") or {}
    if output.get("type") == "kafka":
        return output.get("key_groups") is not None
    return output.get("type") in ("delta", "files", "postgres")
