"""Where the real code meets the simulation: the names of threads, pools, timers, HTTP and logs in its modules, and of
a few pure functions whose results are shared (`sharing.py`).

Everything else of the real code runs as it is.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from typing import Any

import penstock.control.loop
import penstock.spark.host.lease
import penstock.wire.app
import penstock.wire.endpoints
import penstock.wire.host_task_client
import penstock.wire.http
import penstock.wire.task_client
import services.shard_manager.leader.orders
import services.shard_manager.leader.view
import services.state_syncer.host_tasks.dispatcher
import services.state_syncer.store.recorded
import services.task_manager.container
import services.task_manager.hosts.host_pool
import services.task_manager.loops.specs
import services.task_manager.loops.worker
import services.task_service.cache
from services.task_manager.specs.spec_cache import SpecCache
from tests.simulation.network import Http, Network
from tests.simulation.scheduler import Scheduler
from tests.simulation.sharing import Expectations, Shared, Snapshots
from tests.simulation.story import Story, StoryLogger
from tests.simulation.threads import Every, Once, Pool, Threading, Timers

LOOK_EVERY_SECONDS = 2.0
"""Between a host's looks at its lease: longer than in truth, which would make up half of all events."""

_WITH_THREADS = (
    penstock.control.loop,
    penstock.spark.host.lease,
    services.shard_manager.leader.view,
    services.state_syncer.host_tasks.dispatcher,
    services.task_manager.container,
    services.task_manager.hosts.host_pool,
    services.task_manager.loops.worker,
    services.task_service.cache,
)
_WITH_POOLS = (services.shard_manager.leader.orders, services.state_syncer.host_tasks.dispatcher)
_WITH_HTTP = (
    penstock.wire.endpoints,
    penstock.wire.http,
    penstock.wire.host_task_client,
    services.shard_manager.leader.orders,
)


def _wall_time_of_who_runs(scheduler: Scheduler) -> Callable[[], datetime]:
    assert scheduler.current is not None
    return scheduler.current.process.machine.clock.now  # type: ignore[attr-defined,no-any-return]


async def _at_once(call: Callable[..., Any], *args: Any, limiter: object) -> Any:
    return call(*args)


@contextmanager
def on_virtual_time(scheduler: Scheduler, network: Network, story: Story) -> Iterator[None]:
    """The real code lives in the simulation until the end of the block."""
    replaced: list[tuple[object, str, Any]] = []

    def replace(module: object, name: str, value: object) -> None:
        replaced.append((module, name, getattr(module, name)))
        setattr(module, name, value)

    threading, http, logger = Threading(scheduler), Http(network), StoryLogger(story)
    for module in _WITH_THREADS:
        replace(module, "threading", threading)
    replace(penstock.spark.host.lease, "_CHECK_EVERY_SECONDS", LOOK_EVERY_SECONDS)
    for module in _WITH_POOLS:
        replace(module, "ThreadPoolExecutor", partial(Pool, scheduler))
    for module in _WITH_HTTP:
        replace(module, "httpx", http)
    replace(penstock.wire.task_client, "Snapshot", Snapshots(penstock.wire.task_client.Snapshot.model_validate_json))
    replace(services.task_manager.loops.specs, "updated", Shared(services.task_manager.loops.specs.updated, 2))
    replace(services.task_manager.container, "stops_jobs", Shared(services.task_manager.container.stops_jobs, 2))
    with_sharding = Shared(SpecCache.with_sharding, 1)
    replace(SpecCache, "with_sharding", lambda specs, sharding: with_sharding(specs, sharding))
    store = services.state_syncer.store.recorded
    replace(store, "expected_config", Expectations(store.expected_config))
    loop = penstock.control.loop
    replace(loop, "Timers", lambda **_: Timers(scheduler, _wall_time_of_who_runs(scheduler)))
    replace(loop, "IntervalTrigger", lambda *, seconds: Every(seconds))
    replace(loop, "DateTrigger", Once)
    replace(penstock.wire.app, "run_sync", _at_once)
    for name, module in sorted(sys.modules.items()):
        if name.startswith(("services.", "penstock.")) and hasattr(module, "log"):
            replace(module, "log", logger)
    try:
        yield
    finally:
        for target, name, value in reversed(replaced):
            setattr(target, name, value)
