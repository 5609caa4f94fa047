"""Each extension of the lease is passed on to the hosts, so that they also end by themselves should this process be
stopped. No I/O, no clock."""

from __future__ import annotations

from collections.abc import Collection

from penstock.spark.channel import Lease as LeaseCommand
from services.task_manager.effects import Effect, Send
from services.task_manager.lease import Lease
from services.task_manager.model import HostPhase
from services.task_manager.state import State


class LeaseNews:
    """Until when each host was told that the lease is good."""

    def __init__(self) -> None:
        self._told: dict[str, float] = {}

    def effects(self, hosts: Collection[str], state: State, lease: Lease, now: float) -> list[Effect]:
        """What to tell the `hosts` that have a process and do not end."""
        if not lease.is_good(now):
            return []
        effects: list[Effect] = []
        for name in sorted(hosts & state.hosts.keys()):
            ending = state.hosts[name].phase is HostPhase.ENDING
            if not ending and self._told.get(name) != lease.good_until:
                self._told[name] = lease.good_until
                command = LeaseCommand(id=state.next_command_id(), seconds=lease.good_until - now, sent_at=now)
                effects.append(Send(name, command))
        return effects

    def forget(self, host: str) -> None:
        """It has ended."""
        self._told.pop(host, None)
