"""What the State Syncer asks of a container's hosts, besides running tasks."""

from __future__ import annotations

from penstock.tasks.redistribution import GenerationRemoval, RedistributionRequest, SealRequest
from penstock.tasks.savepoint import SavepointRemoval, SavepointRequest
from penstock.tasks.sinks import SinkRequest

HostWork = RedistributionRequest | SealRequest | GenerationRemoval | SavepointRequest | SavepointRemoval | SinkRequest
