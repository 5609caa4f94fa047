"""How long shards stay with a container that cannot run them, while the Shard Managers and the way to them are well.

Who inherits them may be gone by then itself: that is found no sooner, so each owner has a bound of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from penstock.tasks.ownership import Owner
from tests.simulation.network import Weather
from tests.simulation.processes import Machine
from tests.simulation.programs import LEADER_LEASE_SECONDS, Surroundings
from tests.simulation.store import Trouble

LOOK_EVERY_SECONDS = 1.0
FAIL_OVER_SECONDS = 60.0
MARGIN_SECONDS = 10.0
BOUND_SECONDS = (LEADER_LEASE_SECONDS + FAIL_OVER_SECONDS) * 1.04 + MARGIN_SECONDS
"""An election, and then a whole interval in which the new leader has not heard of a container; clocks 3 % slow."""


class Ownership:
    """To be looked at once a second, from `due_at`. A shard's owner is gone while its machine runs no Task Manager;
    one that took the shard anew in between was there. `has_no_place`: shards that need no owner."""

    def __init__(self, around: Surroundings, machines: dict[str, Machine], has_no_place: Callable[[int], bool]) -> None:
        self._has_no_place = has_no_place
        self._around = around
        self._machines = machines
        self.due_at = LOOK_EVERY_SECONDS
        self._well_since = 0.0
        self._gone_since: dict[tuple[int, Owner], float] = {}
        self.longest_seconds = 0.0

    def look(self, now: float) -> Iterator[str]:
        """The shards that are without an owner for too long."""
        self.due_at = now + LOOK_EVERY_SECONDS
        if not self._is_well():
            self._well_since = now
        up = {name for name, machine in self._machines.items() if is_up(machine)}
        if not any(name.startswith("c") for name in up):
            self._well_since = now
        gone = {
            (shard, owner)
            for shard, owner in self._around.database.memory.owners.items()
            if owner.container not in up and not (owner.container is None and self._has_no_place(shard))
        }
        self._gone_since = {key: self._gone_since.get(key, now) for key in sorted(gone, key=str)}
        for (shard, owner), since in self._gone_since.items():
            seconds = now - max(since, self._well_since, self._went_on_at(owner.container))
            self.longest_seconds = max(self.longest_seconds, seconds)
            if seconds > BOUND_SECONDS:
                self._gone_since[shard, owner] = now
                yield f"shard {shard} of {owner.container} has nobody to run it for {seconds:.0f} s"

    def _went_on_at(self, container: str | None) -> float:
        """When a container went on last, though it was stopped again before anybody looked."""
        processes = self._machines[container].living() if container is not None else []
        return max((each.went_on_at for each in processes if each.name == container), default=float("-inf"))

    def _is_well(self) -> bool:
        """Whether nothing keeps Shard Managers, store and network from their work."""
        managers = [machine for name, machine in self._machines.items() if name.startswith("shards")]
        return is_calm(self._around) and all(is_up(machine) for machine in managers)


def is_calm(around: Surroundings) -> bool:
    """Whether store and network work."""
    return around.network.weather == Weather() and around.database.trouble == Trouble() and not around.network.cut


def is_up(machine: Machine) -> bool:
    """Whether the machine's program runs."""
    main = [process for process in machine.processes if process.name == machine.name and not process.is_dead]
    return machine.is_up and bool(main) and not any(process.is_paused for process in main)
