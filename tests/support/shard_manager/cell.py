"""A cell of the Shard Manager: one that leads, a real store, and small Task Managers by name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any, TypeVar

from sqlalchemy import Engine

from penstock.control.process import wait_until
from penstock.store.cluster import ask_for_shards
from penstock.store.engine import transaction
from penstock.tasks.ownership import Member
from services.shard_manager.store import members as stored_members
from services.shard_manager.store import owners as stored_owners
from tests.support.shard_manager.manager import RunningShardManager, shard_manager
from tests.support.shard_manager.small_task_manager import SmallTaskManager
from tests.support.store.database import read_assignment

C = TypeVar("C", bound=SmallTaskManager)
K = TypeVar("K", bound="ShardCell")


class ShardCell:
    """`containers`: those that live. `manager`: the Shard Manager that was started last."""

    manager: RunningShardManager

    def __init__(self, engine: Engine, database_url: str, shards: int, stack: ExitStack) -> None:
        self.engine = engine
        self.shards = shards
        self.containers: dict[str, SmallTaskManager] = {}
        self._database_url = database_url
        self._stack = stack

    def start(self, **settings: Any) -> RunningShardManager:
        """Starts a Shard Manager, which stays until the end of the cell, and waits until it leads."""
        self.manager = self._stack.enter_context(shard_manager(self._database_url, **settings)).lead()
        return self.manager

    @contextmanager
    def leading(self, **settings: Any) -> Iterator[RunningShardManager]:
        """A Shard Manager that leads, until the end of the block."""
        with shard_manager(self._database_url, **settings) as manager:
            self.manager = manager.lead()
            yield manager

    # ---- containers

    def add(self, container: C) -> C:
        """A container that heartbeats when the test says so."""
        self._stack.callback(container.stop)
        self.containers[container.name] = container
        return container

    def join(self, *names: str, **options: Any) -> list[SmallTaskManager]:
        """Containers that heartbeat by themselves from now on."""
        return [self.add(SmallTaskManager(name, **options)).beat(self.manager) for name in names]

    def kill(self, name: str) -> SmallTaskManager:
        """Ends a container without a word."""
        container = self.containers.pop(name)
        container.stop()
        return container

    # ---- what is, in the store and in the containers

    def owners(self) -> dict[int, str | None]:
        """The container of each shard, by the store."""
        with transaction(self.engine) as connection:
            return {shard: owner.container for shard, owner in stored_owners.read_owners(connection).items()}

    def counts(self) -> Counter[str | None]:
        """How many shards each container owns, by the store."""
        return Counter(self.owners().values())

    def held(self) -> dict[str, int]:
        """How many shards each container says that it holds."""
        return {name: len(container.held) for name, container in self.containers.items() if container.held}

    def members(self) -> dict[str, Member]:
        """The rows of the containers."""
        with transaction(self.engine) as connection:
            return stored_members.read_members(connection)

    def agrees(self) -> bool:
        """Whether every shard has an owner, and each container holds what the store says, under the same epochs."""
        with transaction(self.engine) as connection:
            held = all(each.held == read_assignment(connection, name) for name, each in self.containers.items())
        return held and None not in self.counts()

    def is_placed(self) -> bool:
        """Whether all containers, and they alone, have shards."""
        return self.counts().keys() == self.containers.keys() and self.agrees()

    # ---- waiting

    def come_to(self, counts: Mapping[str, int], what: str) -> None:
        """Waits until so many shards are owned and held by each container."""
        wait_until(lambda: self.counts() == counts == self.held() and self.agrees(), 30, what)

    def spread(self, what: str = "an even spread") -> None:
        """Waits until each container has the same number of shards."""
        self.come_to(dict.fromkeys(self.containers, self.shards // len(self.containers)), what)

    def rounds_pass(self, rounds: int = 15) -> None:
        """Waits for so many rounds of the Shard Manager."""
        loop = self.manager.process.loop
        wanted = loop.rounds + rounds
        wait_until(lambda: loop.rounds >= wanted, 20, f"{rounds} rounds")


@contextmanager
def shard_cell(
    engine: Engine, database_url: str, *names: str, shards: int = 12, make: type[K] = ShardCell, **settings: Any
) -> Iterator[K]:
    """A cell; with `names` it has a Shard Manager and these containers, which share all shards evenly."""
    with transaction(engine) as connection:
        ask_for_shards(connection, shards)
    with ExitStack() as stack:
        cell = make(engine, database_url, shards, stack)
        if names:
            cell.start(**settings)
            cell.join(*names)
            cell.spread("a first placement")
        yield cell
