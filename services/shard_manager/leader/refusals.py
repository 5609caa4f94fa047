"""Alerts about containers that refuse the leader of a service. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from services.shard_manager.moves.drains import ContainerAlert


class Heard(Protocol):
    """What a container said last."""

    @property
    def refuses(self) -> tuple[str, ...]:
        """The services whose leader it refuses."""
        ...


def refusals(heartbeats: Mapping[str, Heard]) -> dict[str, ContainerAlert]:
    """Alerts, by container, about those that take the present leader of a service for a former one."""
    return {name: _alert(name, heard.refuses) for name, heard in sorted(heartbeats.items()) if heard.refuses}


def _alert(name: str, services: tuple[str, ...]) -> ContainerAlert:
    message = f"container {name} refuses the orders of {' and '.join(services)}: it has heard of a newer leader epoch"
    return ContainerAlert(name, message, {"services": list(services)})
