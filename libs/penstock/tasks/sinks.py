"""Which outputs must be made before the tasks of a job start, and what is asked of a host for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import Field

from penstock.config.model import JobConfig, Model


class SinkRequest(Model):
    """Make what `config.output` names, unless it is there, and check that it takes the rows of the query.

    `revision` is that of the write which `config` comes from: with `job` it names the request.
    """

    job: str
    revision: int = Field(ge=1)
    config: JobConfig


def needs_sink(config: Mapping[str, Any]) -> bool:
    """Whether the output of a complete configuration, as JSON, is one that tasks would have to make.

    A Delta or Postgres table is; so is a Kafka topic whose number of partitions the job says. Other topics are as the
    broker makes them, and each task has a folder of files for itself.
    """
    output = config["output"]
    return output["type"] in ("delta", "postgres") or (
        output["type"] == "kafka" and output.get("key_groups") is not None
    )
