"""Passes each extension of the lease on to the hosts, which end by themselves when their lease runs out.

So tasks stop even if the Task Manager's process is suspended. No I/O, no clock.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from penstock.spark.channel import Lease as LeaseCommand
from services.task_manager.decide.model import HostPhase, HostView
from services.task_manager.hosts.effects import Effect, Send
from services.task_manager.membership.lease import Lease


class LeaseRelay:
    """Remembers for each host until when its lease is good, so that each extension is sent once."""

    def __init__(self) -> None:
        self._sent: dict[str, float] = {}

    def effects(
        self,
        processes: Collection[str],
        hosts: Mapping[str, HostView],
        lease: Lease,
        next_command_id: Callable[[], int],
        now: float,
    ) -> list[Effect]:
        """The lease commands to send; only hosts with a process that are not ending get one."""
        if not lease.is_good(now):
            return []
        effects: list[Effect] = []
        for name in sorted(processes & hosts.keys()):
            is_ending = hosts[name].phase is HostPhase.ENDING
            if not is_ending and self._sent.get(name) != lease.good_until:
                self._sent[name] = lease.good_until
                command = LeaseCommand(id=next_command_id(), seconds=lease.good_until - now, sent_at=now)
                effects.append(Send(name, command))
        return effects

    def forget(self, host: str) -> None:
        """The host has ended."""
        self._sent.pop(host, None)
