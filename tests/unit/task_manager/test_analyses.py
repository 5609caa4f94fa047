"""Stories of a container that is asked to analyse a job."""

from __future__ import annotations

import threading

import pytest

from penstock.control.errors import Unavailable
from penstock.control.process import wait_until
from penstock.spark.channel import CancelHostTask, RunHostTask
from penstock.tasks.analysis import AnalysisReport, AnalysisRequest
from penstock.wire.analyses import AnalysisCall
from services.task_manager.decide.model import Limits
from tests.support.task_manager.world import World, all_shards, template

OTHER = {"name": "flights", "version": "1"}
WAIT_SECONDS = 20.0


def ready_world(limits: Limits | None = None) -> World:
    """A container with a lease, specs and a warm host."""
    world = World(limits).jobs()
    world.heartbeat(all_shards())
    world.settle()
    return world


def call(
    *, wait_seconds: float = WAIT_SECONDS, start_host: bool = False, await_host: bool = False, **config: object
) -> AnalysisCall:
    request = AnalysisRequest(job="new", number=5, config=template("new", **config).config)
    return AnalysisCall(request=request, wait_seconds=wait_seconds, start_host=start_host, await_host=await_host)


def analysed(world: World, asked: AnalysisCall) -> AnalysisReport:
    """The answer to a call that waits on a thread of its own, as those of HTTP do."""
    found: list[AnalysisReport] = []
    caller = threading.Thread(target=lambda: found.append(world.container.analyse(asked)))
    caller.start()

    def is_answered() -> bool:
        world.settle()
        return not caller.is_alive()

    wait_until(is_answered, WAIT_SECONDS, "the answer")
    return found[0]


def test_a_warm_host_analyses_and_nothing_is_kept() -> None:
    world = ready_world()
    for _ in range(2):
        assert analysed(world, call()) == AnalysisReport(columns={"dest": "string"})
    assert list(world.container._state.host_tasks._entries) == []
    assert len(world.hosts.alive()) == 1


def test_the_host_is_told_how_long_the_caller_waits() -> None:
    world = ready_world()
    analysed(world, call())
    (host,) = world.hosts.alive()
    requests = [each.task.request for each in host.sent if isinstance(each, RunHostTask)]
    assert [each.within_seconds for each in requests if isinstance(each, AnalysisRequest)] == [WAIT_SECONDS]


def test_only_a_plan_starts_a_host_for_another_package() -> None:
    world = ready_world()
    with pytest.raises(Unavailable, match="no host with the job's package is ready"):
        world.container.analyse(call(package=OTHER))
    assert analysed(world, call(package=OTHER, start_host=True)).columns == {"dest": "string"}
    assert {host.key.package[0] for host in world.container.summary().observed.hosts.values()} == {"builtin", "flights"}


def test_a_write_waits_for_a_host_that_starts_and_starts_none() -> None:
    """1. All hosts have ended, and a host starts. 2. A call that waits for no start is refused. 3. One that does is
    answered by that host."""
    world = World().jobs()
    world.heartbeat(all_shards())
    world.container.tick()
    assert [host.phase.name for host in world.container.summary().observed.hosts.values()] == ["STARTING"]
    with pytest.raises(Unavailable, match="no host with the job's package is ready"):
        world.container.analyse(call())
    with pytest.raises(Unavailable, match="no host with the job's package is ready"):
        world.container.analyse(call(package=OTHER, await_host=True))
    assert analysed(world, call(await_host=True)).columns == {"dest": "string"}
    assert len(world.hosts.alive()) == 1


def test_an_analysis_that_takes_too_long_is_given_up() -> None:
    """1. No host answers in time. 2. The host is told, and what it says later counts for nobody."""
    world = ready_world()
    with pytest.raises(Unavailable, match="the analysis did not end within 0 s"):
        world.container.analyse(call(wait_seconds=0))
    world.settle()
    assert list(world.container._state.host_tasks._entries) == []
    (host,) = world.hosts.alive()
    assert not [command for command in host.sent if isinstance(command, CancelHostTask)]


def test_a_container_without_a_lease_refuses() -> None:
    with pytest.raises(Unavailable, match="no lease"):
        World().container.analyse(call())
