"""What is known of a cell when it is asked how it is. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from penstock.model.loops import LoopRound


class Leader(NamedTuple):
    """The lease of a loop. `seconds_left` is negative when it has run out."""

    loop: str
    holder: str
    url: str
    epoch: int
    seconds_left: float


class ContainerFacts(NamedTuple):
    """A container. `report_age_seconds` None: it never reported in its present incarnation. `registered_at`: when that
    began."""

    name: str
    is_live: bool
    availability: str
    heartbeat_age_seconds: float
    report_age_seconds: float | None
    registered_at: datetime | None = None


class CellFacts(NamedTuple):
    """A cell at one moment. `alerts`: the number of open alerts of each kind."""

    leaders: Sequence[Leader]
    rounds: Sequence[LoopRound]
    containers: Sequence[ContainerFacts]
    alerts: Mapping[str, int]
    schema: str


class Probe(NamedTuple):
    """Whether something answered at an address; `error`: why not. `certificate_days_left`: of the certificate that it
    showed; None without TLS."""

    address: str
    error: str | None = None
    brokers: int = 0
    certificate_days_left: float | None = None
