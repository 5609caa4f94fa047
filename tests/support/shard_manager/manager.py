"""A Shard Manager in this process, on a real port and a real store."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from penstock.control.process import wait_until
from penstock.local.ports import free_port
from services.shard_manager.leader.view import View
from services.shard_manager.settings import ShardManagerSettings
from services.shard_manager.wiring import ShardManagerProcess, build
from tests.support.control.serving import serving

PERIODS: dict[str, Any] = {
    "shard_manager_round_seconds": 0.1,
    "shard_manager_lease_seconds": 1.0,
    "container_lease_seconds": 1.0,
    "fail_over_seconds": 2.0,
    "drop_deadline_seconds": 1.0,
    "drop_retry_seconds": 0.5,
    "gather_seconds": 0.3,
    "gather_limit_seconds": 1.0,
    "save_heartbeats_seconds": 0.2,
}


class RunningShardManager:
    """A Shard Manager and where it is."""

    def __init__(self, url: str, process: ShardManagerProcess) -> None:
        self.url = url
        self.process = process

    @property
    def view(self) -> View:
        """What it knows."""
        return self.process.view

    def lead(self) -> RunningShardManager:
        """Waits until it leads and has read the store."""
        wait_until(lambda: self.process.loop.rounds > 0, 10, "the shard manager to lead")
        return self


@contextmanager
def shard_manager(database_url: str, **settings: Any) -> Iterator[RunningShardManager]:
    """A Shard Manager with short periods, on a free port unless told otherwise."""
    values = {**PERIODS, "database_url": database_url, "port": free_port(), **settings}
    process = build(ShardManagerSettings(**values))
    process.start()
    try:
        with serving(process.app, values["port"]) as url:
            yield RunningShardManager(url, process)
    finally:
        process.stop()
