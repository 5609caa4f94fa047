"""Stories of a container that redistributes for the State Syncer."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from penstock.control.errors import Conflict, Unavailable
from penstock.spark.channel import Initialize, Redistribute, RemoveSavepoint, Seal, TakeSavepoint
from penstock.tasks.redistribution import GenerationRemoval, SealRequest
from penstock.tasks.savepoint import SavedTask, SavepointRemoval, SavepointReport, SavepointRequest
from penstock.tasks.sinks import SinkRequest
from penstock.wire.redistributions import LOST, RedistributionAnswer, WorkState
from services.task_manager.actions import DoWork
from services.task_manager.model import Limits
from services.task_manager.works import KEPT, Works
from tests.support.task_manager import World, all_shards, layout, redistribution, template

REQUEST = redistribution()
OTHER = {"name": "flights", "version": "1"}
SEAL = SealRequest(job="flights", layout=layout(1))


def ready_world(limits: Limits | None = None) -> World:
    """A container with a lease and a warm host."""
    world = World(limits)
    world.heartbeat({})
    world.settle()
    return world


def state(world: World, request: object = REQUEST) -> WorkState:
    return world.container.work(request, 0.0).state  # type: ignore[arg-type]


def test_a_warm_host_does_it_and_the_report_is_told_again() -> None:
    """1. A request comes: it goes on. 2. The host has done it: the report. 3. Asked again, the same; nothing is redone.
    4. The seal of the old generation is another work."""
    world = ready_world()
    assert state(world) is WorkState.RUNNING
    assert state(world) is WorkState.RUNNING
    world.settle()
    for _ in range(2):
        answer = world.container.work(REQUEST, 0.0)
        assert (answer.state, answer.report and answer.report.state_rows) == (WorkState.DONE, 3)
    assert state(world, SEAL) is WorkState.RUNNING
    world.settle()
    assert state(world, SEAL) is WorkState.DONE
    (host,) = world.hosts.alive()
    works = [command for command in host.sent if isinstance(command, Redistribute | Seal)]
    assert [command.type for command in works] == ["redistribute", "seal"]
    assert works[0].request == REQUEST


def test_savepoints_are_taken_and_removed_by_a_warm_host_whatever_the_package() -> None:
    """1. A savepoint of a job with a package of its own. 2. The report. 3. Its removal is another work."""
    world = ready_world()
    taken = SavepointRequest(job="flights", name="nightly", number=2, layout=redistribution(package=OTHER).source)
    assert state(world, taken) is WorkState.RUNNING
    world.settle()
    answer = world.container.work(taken, 0.0)
    assert (answer.state, answer.report) == (WorkState.DONE, None)
    assert answer.savepoint == SavepointReport(tasks=(SavedTask(index=0, batch=7),), bytes=11)
    removal = SavepointRemoval(job="flights", name="nightly", number=2)
    assert state(world, removal) is WorkState.RUNNING
    world.settle()
    assert world.container.work(removal, 0.0) == RedistributionAnswer(state=WorkState.DONE)
    (host,) = world.hosts.alive()
    works = [command.type for command in host.sent if isinstance(command, TakeSavepoint | RemoveSavepoint)]
    assert works == ["take_savepoint", "remove_savepoint"]


def test_a_generation_that_is_in_use_here_is_not_removed() -> None:
    """1. Tasks of generation 2 run, the first may go. 2. Generation 3 is committed, and the tasks of the second have
    not stopped yet: neither goes. 3. They have stopped: the second goes."""
    world = ready_world()
    world.jobs(template(generation=2))
    world.heartbeat(all_shards())
    world.settle()
    old = [GenerationRemoval(job="flights", generation=generation) for generation in (1, 2, 3)]
    assert state(world, old[0]) is WorkState.RUNNING
    world.settle()
    assert world.container.work(old[0], 0.0) == RedistributionAnswer(state=WorkState.DONE)
    world.jobs(template(generation=3, revision=2))
    for request in old[1:]:
        with pytest.raises(Conflict, match="in use"):
            world.container.work(request, 0.0)
    world.settle()
    assert state(world, old[1]) is WorkState.RUNNING


def test_an_output_is_made_once_and_a_failure_is_told_once() -> None:
    """1. A write's output is made, and told again. 2. The one of the next write fails. 3. Asked again it is tried."""
    world = ready_world()
    (host,) = world.hosts.alive()
    for revision in (2, 3, 3):
        request = SinkRequest(job="flights", revision=revision, config=layout(2).config)
        assert state(world, request) is WorkState.RUNNING
        world.settle()
        answer = world.container.work(request, 0.0)
        expected = (WorkState.DONE, None) if revision == 2 else (WorkState.FAILED, "is broken_task")
        assert (answer.state, answer.error) == expected
        host.refuse_works = "broken_task"
    assert [c.request.revision for c in host.sent if isinstance(c, Initialize)] == [2, 3, 3]
    assert state(world) is WorkState.RUNNING, "a redistribution to generation 2 is another work"


def test_the_idlest_host_is_given_it_and_others_wait_for_room() -> None:
    world = ready_world(Limits(warm_hosts=2, works_per_host=1))
    world.jobs(template("others"))
    world.heartbeat(all_shards())
    world.settle()
    busy = world.host_of("others/0")
    for generation in (2, 3, 4):
        world.container.work(redistribution(generation), 0.0)
    world.container.tick()
    given = {host.name: [c for c in host.sent if isinstance(c, Redistribute)] for host in world.hosts.alive()}
    assert sorted(len(commands) for commands in given.values()) == [1, 1]
    assert given[busy.name][0].request.target.generation == 3
    world.settle()
    states = [state(world, redistribution(generation)) for generation in (2, 3, 4)]
    assert states == [WorkState.DONE] * 3


def test_a_host_is_started_for_a_package_that_none_has_and_stays_while_it_works() -> None:
    """1. The job's package needs a host of its own. 2. It works for longer than idle hosts live. 3. Then it may end."""
    world = ready_world(Limits(idle_host_seconds=10.0))
    other = redistribution(package={"name": "flights", "version": "1"})
    assert world.container.work(other, 0.0).state is WorkState.RUNNING
    world.container.tick()
    host = list(world.hosts.alive())[-1]
    assert host.key.package == ("flights", "1", "")
    host.become_ready()
    world.container.tick()
    world.wait(60.0)
    assert host.how is None
    world.settle()
    assert world.container.work(other, 0.0).state is WorkState.DONE
    world.wait(15.0)
    world.settle()
    assert host.how is not None


@pytest.mark.parametrize(
    ("kind", "told"), [("broken_task", "broken"), ("retryable", "retryable"), ("new", "retryable")]
)
def test_a_failure_is_told_once_and_asked_again_it_is_tried_again(kind: str, told: str) -> None:
    world = ready_world()
    (host,) = world.hosts.alive()
    host.refuse_works = kind
    state(world)
    world.settle()
    answer = world.container.work(REQUEST, 0.0)
    assert (answer.state, answer.error_kind, answer.error) == (WorkState.FAILED, told, f"is {kind}")
    host.refuse_works = None
    assert state(world) is WorkState.RUNNING
    world.settle()
    assert state(world) is WorkState.DONE


def test_a_host_that_dies_fails_its_works() -> None:
    world = ready_world()
    state(world)
    world.container.tick()
    (host,) = world.hosts.alive()
    host.die("out of memory")
    world.container.tick()
    answer = world.container.work(REQUEST, 0.0)
    assert (answer.state, answer.error_kind) == (WorkState.FAILED, LOST)
    assert "out of memory" in str(answer.error)


def test_without_a_lease_nothing_is_begun() -> None:
    with pytest.raises(Unavailable):
        state(World())


@pytest.mark.parametrize(("generation", "refused"), [(4, True), (5, True), (6, False)])
def test_a_request_that_comes_late_never_writes_where_tasks_run(generation: int, refused: bool) -> None:
    world = ready_world()
    world.jobs(template(generation=5, desired_state="stopped"))
    if refused:
        with pytest.raises(Conflict):
            state(world, redistribution(generation))
    else:
        assert state(world, redistribution(generation)) is WorkState.RUNNING


def test_a_request_that_comes_after_the_tasks_were_resumed_is_refused() -> None:
    """1. The job is to run: its tasks have the checkpoints. 2. It is stopped."""
    world = ready_world()
    world.jobs(template(generation=1))
    with pytest.raises(Conflict, match="are to run"):
        state(world)
    world.jobs(template(generation=1, desired_state="stopped"))
    assert state(world) is WorkState.RUNNING


def test_a_caller_may_wait_for_the_end() -> None:
    world = ready_world()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(world.container.work, REQUEST, 10.0)
        world.container.wake.wait(10)
        world.settle()
        assert waiting.result(timeout=10).state is WorkState.DONE


def test_the_oldest_that_are_over_are_forgotten() -> None:
    works = Works()
    over, goes_on = works.ask(redistribution(2)), works.ask(redistribution(3))
    works.assign(DoWork(over, "h"), 1)
    works.host_exited("h", "killed")
    for generation in range(4, KEPT + 4):
        works.ask(redistribution(generation))
    assert works.answer(over).state is WorkState.RUNNING, "its failure is not known any more"
    assert not works.is_over(goes_on)
