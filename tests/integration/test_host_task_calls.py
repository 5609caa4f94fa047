"""The State Syncer's dispatcher and a Task Manager's endpoints over real HTTP; the hosts are the test's own."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest

from penstock.config.model import Package
from penstock.config.problems import Problem
from penstock.control.clock import SystemClock
from penstock.control.errors import Unavailable
from penstock.control.process import wait_until
from penstock.local.ports import free_port
from penstock.spark.channel import RunHostTask
from penstock.tasks.analysis import AnalysisReport, AnalysisRequest
from penstock.tasks.host_task import INITIALIZE_SINK, REDISTRIBUTE, REMOVE_GENERATION, SEAL
from penstock.tasks.redistribution import GenerationRemoval, RedistributionReport, SealRequest
from penstock.tasks.savepoint import SavepointRemoval, SavepointRequest
from penstock.tasks.sinks import SinkRequest
from penstock.wire.analyses import AnalysisCall, AnalysisClient
from penstock.wire.cluster import as_json
from penstock.wire.host_task_client import HostTaskClient
from penstock.wire.host_tasks import HostTaskState
from services.state_syncer.host_tasks.dispatcher import Dispatcher, WantedHostTasks
from services.state_syncer.host_tasks.outcomes import Attempt, AttemptKey, Done, Failed, Lost, Outcome, Unanswered
from services.task_manager.api import build_app
from tests.support import calls, identity
from tests.support.control.serving import serving
from tests.support.task_manager.world import World, host_task, layout, redistribution, template

KEY = AttemptKey("flights", REDISTRIBUTE, 2, "c1")
REQUEST = redistribution()


put, delete = (partial(call, auth=identity.auth("state_syncer")) for call in (calls.put, calls.delete))


@pytest.fixture
def world() -> World:
    world = World().jobs()
    world.heartbeat({})
    world.settle()
    return world


@pytest.fixture
def url(world: World) -> Iterator[str]:
    with serving(build_app(world.container, identity.identity("task_manager/c1")), free_port()) as url:
        yield url


@pytest.fixture
def tasks() -> Iterator[WantedHostTasks]:
    clock = SystemClock()
    client = HostTaskClient(identity.outgoing("state_syncer"))
    dispatcher = Dispatcher(client, clock.monotonic, workers=2, lost_after_seconds=0.5, wait_seconds=0.1)
    yield WantedHostTasks(dispatcher)
    dispatcher.close()
    client.close()


def outcome(tasks: WantedHostTasks, world: World, attempt: Attempt) -> Outcome:
    """What comes of an attempt that is wanted again and again, as rounds do."""

    def ended() -> bool:
        tasks.want([attempt], 1)
        world.settle()
        return not isinstance(tasks.outcome(attempt.key), Unanswered)

    wait_until(ended, 20, "an outcome")
    return tasks.outcome(attempt.key)


def test_what_a_container_does_not_have_is_told_without_a_host(world: World) -> None:
    """So is a login that Kafka refuses. Nothing is told of a job that has all: then nobody knows."""
    lacks = Problem("package", "package_exists", "package: rules 2 is missing")
    refused = Problem("inputs", "kafka_login", "inputs: kafka refuses the user bob")
    found = [
        AnalysisReport(),
        AnalysisReport(logins=(refused,), unchecked=("kafka refuses the user bob",)),
        AnalysisReport(problems=(lacks,)),
    ]
    no_host = "no host with the job's package is ready"
    app = build_app(world.container, identity.identity("task_manager/c1"), missing=lambda config, has_time: found[-1])
    config = layout(1).config.model_copy(update={"package": Package(name="rules", version="2")})
    call = AnalysisCall(request=AnalysisRequest(job="flights", number=1, config=config), wait_seconds=0.1)
    client = AnalysisClient(identity.outgoing("job_service"))
    with serving(app, free_port()) as url:
        assert client.analyse(url, call) == AnalysisReport(problems=(lacks,), unchecked=(no_host,))
        found.pop()
        assert client.analyse(url, call) == AnalysisReport(
            logins=(refused,), unchecked=("kafka refuses the user bob", no_host)
        )
        found.pop()
        with pytest.raises(Unavailable):
            client.analyse(url, call)
    client.close()


def test_a_redistribution_and_a_seal_are_done(tasks: WantedHostTasks, world: World, url: str) -> None:
    ask = Attempt(KEY, url, REQUEST)
    assert outcome(tasks, world, ask) == Done(RedistributionReport(state_rows=3))
    seal = Attempt(KEY._replace(kind=SEAL), url, SealRequest(job="flights", layout=layout(1)))
    assert outcome(tasks, world, seal) == Done()


def test_a_savepoint_is_taken_and_removed(world: World, url: str) -> None:
    client = HostTaskClient(identity.outgoing("state_syncer"))
    taken = SavepointRequest(job="flights", name="nightly", number=2, layout=layout(1), state_bytes=0)
    for request in (taken, SavepointRemoval(job="flights", name="nightly", number=2)):
        assert client.put("c1", url, host_task(request), wait_seconds=0.0).state is HostTaskState.RUNNING
        world.settle()
        assert client.put("c1", url, host_task(request), wait_seconds=0.0).state is HostTaskState.DONE
    client.close()


def test_a_call_for_another_container_is_not_taken(world: World, url: str) -> None:
    """As from who had the address before, and passes on what reaches it."""
    client = HostTaskClient(identity.outgoing("state_syncer"))
    removal = GenerationRemoval(job="flights", generation=1)
    with pytest.raises(Unavailable):
        client.put("c2", url, host_task(removal), wait_seconds=0.0)
    with pytest.raises(Unavailable):
        client.cancel("c2", url, "flights", 9)
    assert not list(world.container._state.host_tasks.waiting())
    assert client.put("c1", url, host_task(removal), wait_seconds=0.0).state is HostTaskState.RUNNING
    client.close()


def test_an_old_generation_is_removed(tasks: WantedHostTasks, world: World, url: str) -> None:
    request = GenerationRemoval(job="flights", generation=1)
    key = KEY._replace(kind=REMOVE_GENERATION, number=1)
    assert outcome(tasks, world, Attempt(key, url, request)) == Done()


def test_an_output_is_made(tasks: WantedHostTasks, world: World, url: str) -> None:
    request = SinkRequest(job="flights", revision=7, config=layout(1).config)
    key = KEY._replace(kind=INITIALIZE_SINK, number=7)
    assert outcome(tasks, world, Attempt(key, url, request)) == Done()


def test_a_failure_comes_with_its_reason(tasks: WantedHostTasks, world: World, url: str) -> None:
    (host,) = world.hosts.alive()
    host.refuse_host_tasks = "broken_task"
    assert outcome(tasks, world, Attempt(KEY, url, REQUEST)) == Failed("is broken_task", is_final=True)


def test_a_refusal_is_a_failure(tasks: WantedHostTasks, world: World, url: str) -> None:
    world.jobs(template(generation=7, desired_state="stopped"))
    found = outcome(tasks, world, Attempt(KEY, url, REQUEST))
    assert isinstance(found, Failed)
    assert "generation 7" in found.error


def test_nobody_there_and_a_container_without_a_lease_are_silence(
    tasks: WantedHostTasks, world: World, url: str
) -> None:
    nobody = outcome(tasks, world, Attempt(KEY, f"http://127.0.0.1:{free_port()}", REQUEST))
    assert isinstance(nobody, Lost)
    world.clock.seconds += 3600
    without_lease = outcome(tasks, world, Attempt(KEY._replace(failures=1), url, REQUEST))
    assert isinstance(without_lease, Lost)


def test_what_is_wanted_no_more_is_cancelled_and_comes_too_late_then(
    tasks: WantedHostTasks, world: World, url: str
) -> None:
    """1. A redistribution waits. 2. The State Syncer wants it no more. 3. A late call for it is refused."""
    (host,) = world.hosts.alive()
    tasks.want([Attempt(KEY, url, REQUEST)], 1)
    wait_until(lambda: any(True for _ in world.container._state.host_tasks.waiting()), 20, "the call")
    tasks.want([], 1)
    body = as_json(host_task(REQUEST))

    def is_refused() -> bool:
        return put(f"{url}/v1/host-tasks/{PATH}", json=body).status_code == 409

    wait_until(is_refused, 20, "the cancellation")
    world.settle()
    assert not any(isinstance(command, RunHostTask) for command in host.sent)


PATH = "redistribute:flights:2"


def test_a_body_of_another_path_and_calls_of_older_leaders_are_refused(url: str) -> None:
    body = as_json(host_task(REQUEST, 5))
    wrong = put(f"{url}/v1/host-tasks/redistribute:flights:9", json=body)
    assert (wrong.status_code, wrong.json()["rule"]) == (409, "as_in_path")
    right = f"{url}/v1/host-tasks/{PATH}"
    assert put(right, json=body, params={"wait_seconds": 60}).status_code == 422
    assert put(right, json=body).json()["state"] == "running"
    older = put(right, json=as_json(host_task(REQUEST, 4)))
    for refused in (older, delete(right, params={"leader_epoch": 4})):
        assert (refused.status_code, refused.json()["field"], refused.json()["rule"]) == (409, "leader_epoch", "newest")
    assert delete(right, params={"leader_epoch": 5}).status_code == 204
    assert put(f"{url}/v1/host-tasks/x", json=body | {"request": {"kind": "no such kind"}}).status_code == 422
