"""The State Syncer's executor and a Task Manager's endpoints over real HTTP; the hosts are the test's own."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from penstock.control.clock import SystemClock
from penstock.control.process import wait_until
from penstock.local.ports import free_port
from penstock.tasks.redistribution import GenerationRemoval, RedistributionReport, SealRequest
from penstock.tasks.savepoint import SavepointRemoval, SavepointRequest
from penstock.tasks.sinks import SinkRequest
from penstock.wire.cluster import as_json
from penstock.wire.redistribution_client import RedistributionClient
from penstock.wire.redistributions import WorkState
from services.state_syncer.asks import Ask, AskKey
from services.state_syncer.executor import ContainerExecutor
from services.state_syncer.generations import REMOVE_GENERATION
from services.state_syncer.progress import Done, Failed, Lost, Outcome, Step, Unanswered
from services.state_syncer.sinks import INITIALIZE_SINK
from services.task_manager.api import build_app
from tests.support.shard_manager import serving
from tests.support.task_manager import World, layout, redistribution, template

KEY = AskKey("flights", Step.REDISTRIBUTE, 2, "c1", 0, 0)
REQUEST = redistribution()


@pytest.fixture
def world() -> World:
    world = World()
    world.heartbeat({})
    world.settle()
    return world


@pytest.fixture
def url(world: World) -> Iterator[str]:
    with serving(build_app(world.container, drop_deadline_seconds=1.0), free_port()) as url:
        yield url


@pytest.fixture
def executor() -> Iterator[ContainerExecutor]:
    clock = SystemClock()
    client = RedistributionClient()
    executor = ContainerExecutor(client, clock.monotonic, workers=2, lost_after_seconds=0.5, wait_seconds=0.1)
    yield executor
    executor.close()
    client.close()


def outcome(executor: ContainerExecutor, world: World, ask: Ask) -> Outcome:
    """What comes of an attempt that is asked for again and again, as rounds do."""

    def ended() -> bool:
        executor.ask([ask])
        world.settle()
        return not isinstance(executor.outcome(ask.key), Unanswered)

    wait_until(ended, 20, "an outcome")
    return executor.outcome(ask.key)


def test_a_redistribution_and_a_seal_are_done(executor: ContainerExecutor, world: World, url: str) -> None:
    ask = Ask(KEY, url, REQUEST)
    assert outcome(executor, world, ask) == Done(RedistributionReport(state_rows=3))
    seal = Ask(KEY._replace(step=Step.SEAL), url, SealRequest(job="flights", layout=layout(1)))
    assert outcome(executor, world, seal) == Done()


def test_a_savepoint_is_taken_and_removed(world: World, url: str) -> None:
    client = RedistributionClient()
    taken = SavepointRequest(job="flights", name="nightly", number=2, layout=layout(1))
    for request in (taken, SavepointRemoval(job="flights", name="nightly", number=2)):
        assert client.ask(url, request, wait_seconds=0.0).state is WorkState.RUNNING
        world.settle()
        assert client.ask(url, request, wait_seconds=0.0).state is WorkState.DONE
    client.close()
    for path in ("savepoints/flights/3", "savepoints/flights/3/removal"):
        assert httpx.put(f"{url}/v1/{path}", json=as_json(taken)).status_code in (409, 422)


def test_an_old_generation_is_removed(executor: ContainerExecutor, world: World, url: str) -> None:
    request = GenerationRemoval(job="flights", generation=1)
    key = KEY._replace(step=REMOVE_GENERATION, number=1)
    assert outcome(executor, world, Ask(key, url, request)) == Done()
    wrong = httpx.put(f"{url}/v1/redistributions/flights/2/removal", json=as_json(request))
    assert (wrong.status_code, wrong.json()["rule"]) == (409, "as_in_path")


def test_an_output_is_made(executor: ContainerExecutor, world: World, url: str) -> None:
    request = SinkRequest(job="flights", revision=7, config=layout(1).config)
    key = KEY._replace(step=INITIALIZE_SINK, number=7)
    assert outcome(executor, world, Ask(key, url, request)) == Done()
    wrong = httpx.put(f"{url}/v1/sinks/flights/8", json=as_json(request))
    assert (wrong.status_code, wrong.json()["rule"]) == (409, "as_in_path")


def test_a_failure_comes_with_its_reason(executor: ContainerExecutor, world: World, url: str) -> None:
    (host,) = world.hosts.alive()
    host.refuse_works = "broken_task"
    assert outcome(executor, world, Ask(KEY, url, REQUEST)) == Failed("is broken_task")


def test_a_refusal_is_a_failure(executor: ContainerExecutor, world: World, url: str) -> None:
    world.jobs(template(generation=7, desired_state="stopped"))
    found = outcome(executor, world, Ask(KEY, url, REQUEST))
    assert isinstance(found, Failed)
    assert "generation 7" in found.error


def test_nobody_there_and_a_container_without_a_lease_are_silence(
    executor: ContainerExecutor, world: World, url: str
) -> None:
    nobody = outcome(executor, world, Ask(KEY, f"http://127.0.0.1:{free_port()}", REQUEST))
    assert isinstance(nobody, Lost)
    world.clock.seconds += 3600
    without_lease = outcome(executor, world, Ask(KEY._replace(container="c2"), url, REQUEST))
    assert isinstance(without_lease, Lost)


def test_a_body_of_another_path_is_refused(url: str) -> None:
    wrong = httpx.put(f"{url}/v1/redistributions/flights/9", json=as_json(REQUEST))
    assert (wrong.status_code, wrong.json()["rule"]) == (409, "as_in_path")
    right = f"{url}/v1/redistributions/flights/2"
    assert httpx.put(right, json=as_json(REQUEST), params={"wait_seconds": 60}).status_code == 422
    assert httpx.put(right, json=as_json(REQUEST)).json()["state"] == "running"
