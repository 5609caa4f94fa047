"""What is asked of a host that runs a job's query for a while to see how fast it is, and what it answers.

The paper bootstraps P, the greatest rate of a thread, in a staging run (ICDE 2020, section V-B).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from pydantic import Field

from penstock.config.declare import Carried, Model, Name
from penstock.config.model import JobConfig
from penstock.tasks.host_request import HostRequest

LEAST_SECONDS, MOST_SECONDS = 5, 600
LEAST_BATCHES = 5
"""With fewer batches that count a rate is no estimate: their code was hardly compiled."""
_BATCHES = 12
"""So many batches fit into the time of a run, unless the job limits its batches itself."""
_LONGEST_BATCH_SECONDS = 10.0
_SHORTEST_BATCH_SECONDS = 0.5
_SPEED = (
    "args",
    "inputs",
    "output_mode",
    "package",
    "query",
    "spark_settings",
    "state_backend",
    "streams",
    "tables",
    "threads_per_task",
)
"""The fields on which the rate of one task depends."""


class ProfileReport(Carried):
    """What one task got through. `rows`, `batches` and `seconds` are of the batches that count: the first ones, in
    which code is compiled, do not when others follow.

    `rows_per_second`: rows by the time of their batches; None when no batch had rows. `low_rows_per_second`: nine
    batches in ten were faster. `state_*`: at the end; None without state. `read_all`: the run ended early, as nothing
    was left to read. `key_groups`: those that were read.
    """

    rows: int = Field(ge=0)
    batches: int = Field(ge=0)
    seconds: float = Field(ge=0)
    rows_per_second: float | None = None
    low_rows_per_second: float | None = None
    state_rows: int | None = None
    state_memory_bytes: int | None = None
    read_all: bool = False
    key_groups: int = 1


class ProfileRequest(HostRequest):
    """Run the query of the first task for `seconds`, from the beginning of its inputs, and throw its results away."""

    Report: ClassVar[type[Model] | None] = ProfileReport

    kind: Literal["profile"] = "profile"
    job: Name
    number: int = Field(ge=1)
    seconds: int = Field(ge=LEAST_SECONDS, le=MOST_SECONDS)
    config: JobConfig

    @property
    def key_number(self) -> int:
        return self.number

    @property
    def host_config(self) -> JobConfig:
        """The query needs the job's package."""
        return self.config

    @property
    def queue(self) -> str:
        """A run waits for nothing else of the job, and nothing of the job waits for it."""
        return f"profile/{self.number}"


def staged(config: JobConfig, seconds: float) -> JobConfig:
    """The configuration for a run of so many seconds: inputs from their beginning, in batches of which many fit."""
    inputs = {
        name: source.model_copy(update={"starting_position": "earliest"}) for name, source in config.inputs.items()
    }
    limits = (config.max_batch_seconds, config.max_records_per_trigger, config.max_bytes_per_trigger)
    if limits != (None, None, None):
        return config.model_copy(update={"inputs": inputs})
    batch = max(_SHORTEST_BATCH_SECONDS, min(_LONGEST_BATCH_SECONDS, seconds / _BATCHES))
    return config.model_copy(update={"inputs": inputs, "max_batch_seconds": batch})


def is_as_fast(profiled: Mapping[str, Any], config: Mapping[str, Any]) -> bool:
    """Whether what was measured with one stored configuration holds for another: they differ in nothing on which the
    rate of one task depends."""
    return all(profiled.get(name) == config.get(name) for name in _SPEED)
