"""Stories of a container that redistributes for the State Syncer."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from penstock.control.errors import Conflict, Unavailable
from penstock.spark.channel import CancelHostTask, HostTaskProgress, RunHostTask
from penstock.tasks.host_request import HostRequest
from penstock.tasks.host_task import key_of
from penstock.tasks.redistribution import CopyRequest, GenerationRemoval, SealRequest
from penstock.tasks.savepoint import SavedTask, SavepointRemoval, SavepointReport, SavepointRequest
from penstock.tasks.sinks import SinkRequest
from penstock.wire.host_tasks import LOST, HostTaskAnswer, HostTaskState
from services.task_manager.decide.actions import RunHostTask as RunAction
from services.task_manager.decide.host_choice import DEFAULT_KEY, host_key_for
from services.task_manager.decide.model import Limits
from services.task_manager.hosts.host_tasks import KEPT, AcceptedHostTasks
from tests.support.task_manager.fake_hosts import FakeHost
from tests.support.task_manager.world import World, all_shards, host_task, layout, redistribution, template

REQUEST = redistribution()
OTHER = {"name": "flights", "version": "1"}
SEAL = SealRequest(job="flights", layout=layout(1))


def ready_world(limits: Limits | None = None) -> World:
    """A container with a lease, specs and a warm host."""
    world = World(limits).jobs()
    world.heartbeat({})
    world.settle()
    return world


def state(world: World, request: HostRequest = REQUEST) -> HostTaskState:
    return world.ask(request).state


def given(host: FakeHost) -> list[HostRequest]:
    """The requests of all host tasks that a host was told of."""
    return [command.task.request for command in host.sent if isinstance(command, RunHostTask)]


def test_a_warm_host_does_it_and_the_report_is_told_again() -> None:
    """1. A request comes: it goes on. 2. The host has done it: the report. 3. Asked again, the same; nothing is redone.
    4. The seal of the old generation is another work."""
    world = ready_world()
    assert state(world) is HostTaskState.RUNNING
    assert state(world) is HostTaskState.RUNNING
    world.settle()
    for _ in range(2):
        answer = world.ask(REQUEST)
        assert (answer.state, answer.report and answer.report["state_rows"]) == (HostTaskState.DONE, 3)
    assert state(world, SEAL) is HostTaskState.RUNNING
    world.settle()
    assert state(world, SEAL) is HostTaskState.DONE
    (host,) = world.hosts.alive()
    assert given(host) == [REQUEST, SEAL]


def test_savepoints_are_taken_and_removed_by_a_warm_host_whatever_the_package() -> None:
    """1. A savepoint of a job with a package of its own. 2. The report. 3. Its removal is another work."""
    world = ready_world()
    taken = SavepointRequest(job="flights", name="nightly", number=2, layout=layout(1, package=OTHER), state_bytes=0)
    assert state(world, taken) is HostTaskState.RUNNING
    world.settle()
    answer = world.ask(taken)
    assert answer.state is HostTaskState.DONE
    assert SavepointReport.model_validate(answer.report) == SavepointReport(
        tasks=(SavedTask(index=0, batch=7),), bytes=11
    )
    removal = SavepointRemoval(job="flights", name="nightly", number=2)
    assert state(world, removal) is HostTaskState.RUNNING
    world.settle()
    assert world.ask(removal) == HostTaskAnswer(state=HostTaskState.DONE)
    (host,) = world.hosts.alive()
    assert given(host) == [taken, removal]


def test_a_generation_that_is_in_use_here_is_not_removed() -> None:
    """1. Tasks of generation 2 run, the first may go. 2. Generation 3 is committed, and the tasks of the second have
    not stopped yet: neither goes. 3. They have stopped: the second goes."""
    world = ready_world()
    world.jobs(template(generation=2))
    world.heartbeat(all_shards())
    world.settle()
    old = [GenerationRemoval(job="flights", generation=generation) for generation in (1, 2, 3)]
    assert state(world, old[0]) is HostTaskState.RUNNING
    world.settle()
    assert world.ask(old[0]) == HostTaskAnswer(state=HostTaskState.DONE)
    world.jobs(template(generation=3, revision=2))
    for request in old[1:]:
        with pytest.raises(Conflict, match="in use"):
            world.ask(request)
    world.settle()
    assert state(world, old[1]) is HostTaskState.RUNNING


def test_an_output_is_made_once_and_a_failure_is_told_once() -> None:
    """1. A write's output is made, and told again. 2. The one of the next write fails. 3. Asked again it is tried."""
    world = ready_world()
    (host,) = world.hosts.alive()
    for revision in (2, 3, 3):
        request = SinkRequest(job="flights", revision=revision, config=layout(2).config)
        assert state(world, request) is HostTaskState.RUNNING
        world.settle()
        answer = world.ask(request)
        expected = (HostTaskState.DONE, None) if revision == 2 else (HostTaskState.FAILED, "is broken_task")
        assert (answer.state, answer.error) == expected
        host.refuse_host_tasks = "broken_task"
    assert [request.key_number for request in given(host)] == [2, 3, 3]
    assert state(world) is HostTaskState.RUNNING, "a redistribution to generation 2 is another work"


def test_the_idlest_host_is_given_it_and_others_wait_for_room() -> None:
    world = ready_world(Limits(warm_hosts=2, host_tasks_per_host=1))
    world.jobs(template("others"))
    world.heartbeat(all_shards())
    world.settle()
    busy = world.host_of("others/0")
    for generation in (2, 3, 4):
        world.ask(redistribution(generation))
    world.container.tick()
    by_host = {host.name: given(host) for host in world.hosts.alive()}
    assert sorted(len(requests) for requests in by_host.values()) == [1, 1]
    assert by_host[busy.name][0].key_number == 3
    world.settle()
    states = [state(world, redistribution(generation)) for generation in (2, 3, 4)]
    assert states == [HostTaskState.DONE] * 3


def test_a_host_is_started_for_a_package_that_none_has_and_stays_while_it_works() -> None:
    """1. The job's package needs a host of its own. 2. It works for longer than idle hosts live. 3. Then it may end."""
    world = ready_world(Limits(idle_host_seconds=10.0))
    other = redistribution(package={"name": "flights", "version": "1"})
    assert world.ask(other).state is HostTaskState.RUNNING
    world.container.tick()
    host = list(world.hosts.alive())[-1]
    assert host.key.package == ("flights", "1", "")
    host.become_ready()
    world.container.tick()
    world.wait(60.0)
    assert host.how is None
    world.settle()
    assert world.ask(other).state is HostTaskState.DONE
    world.wait(15.0)
    world.settle()
    assert host.how is not None


@pytest.mark.parametrize(
    ("kind", "told"), [("broken_task", "broken"), ("retryable", "retryable"), ("new", "retryable")]
)
def test_a_failure_is_told_once_and_asked_again_it_is_tried_again(kind: str, told: str) -> None:
    world = ready_world()
    (host,) = world.hosts.alive()
    host.refuse_host_tasks = kind
    state(world)
    world.settle()
    answer = world.ask(REQUEST)
    assert (answer.state, answer.error_kind, answer.error) == (HostTaskState.FAILED, told, f"is {kind}")
    host.refuse_host_tasks = None
    assert state(world) is HostTaskState.RUNNING
    world.settle()
    assert state(world) is HostTaskState.DONE


def test_a_host_that_dies_fails_its_works() -> None:
    world = ready_world()
    state(world)
    world.container.tick()
    (host,) = world.hosts.alive()
    host.die("out of memory")
    world.container.tick()
    answer = world.ask(REQUEST)
    assert (answer.state, answer.error_kind) == (HostTaskState.FAILED, LOST)
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
        assert state(world, redistribution(generation)) is HostTaskState.RUNNING


@pytest.mark.parametrize(("generation", "refused"), [(1, True), (2, False)])
def test_state_is_copied_while_tasks_run_but_never_into_what_they_run_in(generation: int, refused: bool) -> None:
    """Meanwhile the host says how far it is."""
    world = ready_world()
    world.heartbeat(all_shards())
    world.jobs(template())
    world.settle()
    request = CopyRequest(job="flights", source=layout(1), target=layout(generation, 4), state_bytes=0)
    if refused:
        with pytest.raises(Conflict, match="at generation 1 already"):
            world.ask(request)
        return
    assert state(world, request) is HostTaskState.RUNNING
    world.container.tick()
    (host,) = world.hosts.alive()
    command = next(each for each in host.sent if isinstance(each, RunHostTask))
    world.container.host_event(host.name, HostTaskProgress(id=command.id, text="half of it"))
    assert world.ask(request).progress == "half of it"


def test_a_request_that_comes_after_the_tasks_were_resumed_is_refused() -> None:
    """1. The job is to run: its tasks have the checkpoints. 2. It is stopped."""
    world = ready_world()
    world.jobs(template(generation=1))
    with pytest.raises(Conflict, match="are set to run"):
        state(world)
    world.jobs(template(generation=1, desired_state="stopped"))
    assert state(world) is HostTaskState.RUNNING


def test_a_caller_may_wait_for_the_end() -> None:
    world = ready_world()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(world.container.host_task, host_task(REQUEST), 10.0)
        world.container.wake.wait(10)
        world.settle()
        assert waiting.result(timeout=10).state is HostTaskState.DONE


def test_the_oldest_that_are_over_are_forgotten() -> None:
    tasks = AcceptedHostTasks()
    for generation in range(2, KEPT + 4):
        tasks.ask(host_task(redistribution(generation)), DEFAULT_KEY, 0.0)
        if generation == 2:
            tasks.assign(RunAction(host_task(redistribution(2)).key, "h"), 1)
            tasks.host_exited("h", "killed", was_late=False)
    over, goes_on = (key_of("redistribute", "flights", generation) for generation in (2, 3))
    assert tasks.answer(over).state is HostTaskState.RUNNING, "its failure is not known any more"
    assert not tasks.is_over(goes_on)


def test_an_older_leader_is_refused_and_a_refused_request_makes_none_the_newest() -> None:
    """1. A leader asks. 2. The one before it is refused, also its cancel. 3. A newer leader asks for what cannot be:
    its epoch is not taken as the newest. 4. What it asks rightly counts."""
    world = ready_world()
    assert world.ask(REQUEST, 5).state is HostTaskState.RUNNING
    for call in (lambda: world.ask(REQUEST, 4), lambda: world.container.cancel_host_task("seal:flights:1", 4)):
        with pytest.raises(Conflict) as refused:
            call()
        assert (refused.value.field, refused.value.rule) == ("leader_epoch", "newest")
    world.jobs(template(generation=9, desired_state="stopped"))
    with pytest.raises(Conflict, match="generation 9"):
        world.ask(redistribution(3), 6)
    assert world.ask(SEAL, 5).state is HostTaskState.RUNNING
    assert world.ask(SEAL, 6).state is HostTaskState.RUNNING
    with pytest.raises(Conflict, match="older than 6"):
        world.ask(SEAL, 5)


KEY = host_task(REQUEST).key


def test_what_is_cancelled_before_it_began_never_begins() -> None:
    """1. A redistribution is asked for and cancelled before a host has it. 2. A late call of before is refused. 3. A
    seal may be asked for again."""
    world = ready_world()
    state(world)
    world.container.cancel_host_task(KEY, 1)
    world.settle()
    (host,) = world.hosts.alive()
    assert given(host) == []
    with pytest.raises(Conflict) as refused:
        state(world)
    assert refused.value.rule == "not_cancelled"
    state(world, SEAL)
    world.container.cancel_host_task(host_task(SEAL).key, 1)
    assert state(world, SEAL) is HostTaskState.RUNNING
    world.settle()
    assert given(host) == [SEAL]


def test_a_host_is_told_of_a_cancelled_task_that_it_has_once() -> None:
    """1. The host has the task and is busy. 2. It is cancelled. 3. The host answers; nothing of the task is left."""
    world = ready_world()
    (host,) = world.hosts.alive()
    state(world)
    world.container.tick()
    world.container.cancel_host_task(KEY, 1)
    for _ in range(3):
        world.container.tick()
    assert [command.key for command in host.sent if isinstance(command, CancelHostTask)] == [KEY]
    world.settle()
    assert world.container._state.host_tasks.is_over(KEY)
    assert world.container._state.host_tasks.load()[host.name] == 0


@pytest.mark.parametrize("begun", [False, True])
def test_a_redistribution_ends_when_its_job_is_to_run_again(begun: bool) -> None:
    """1. A redistribution waits, or a host has it. 2. The job is resumed. 3. It does not begin, and fails."""
    world = ready_world(None if begun else Limits(warm_hosts=0))
    world.jobs(template(desired_state="stopped"))
    state(world)
    if begun:
        world.container.tick()
    world.jobs(template(revision=2))
    world.settle()
    world.jobs(template(desired_state="stopped", revision=3))
    answer = world.ask(REQUEST)
    assert answer.state is HostTaskState.FAILED
    hosts = [request for host in world.hosts.alive() for request in given(host)]
    assert hosts == ([REQUEST] if begun else [])


GIB = 2**30


@pytest.mark.parametrize(
    ("state_bytes", "capacity", "memory"),
    [
        (0, 16 * GIB, None),
        (64 * 2**20, 16 * GIB, None),
        (64 * 2**20 + 1, 16 * GIB, 2 * GIB),
        (200 * 2**20, 16 * GIB, 2 * GIB),
        (GIB, 16 * GIB, 8 * GIB),
        (100 * GIB, 16 * GIB, 16 * GIB),
        (100 * GIB, GIB // 2, GIB),
        (None, 16 * GIB, 4 * GIB),
        (None, 2 * GIB, 2 * GIB),
    ],
)
def test_a_large_or_unknown_state_gets_a_host_of_its_size(
    state_bytes: int | None, capacity: int, memory: int | None
) -> None:
    request = REQUEST.model_copy(update={"state_bytes": state_bytes})
    key = host_key_for(request, capacity)
    assert (key.for_host_tasks, key.memory_bytes) == (memory is not None, memory or 0)
    assert host_key_for(SEAL, capacity).for_host_tasks is False


def test_a_large_state_is_moved_by_a_host_without_tasks_which_ends_when_idle() -> None:
    """1. Two large redistributions: one host for them, one after the other. 2. No task is placed on that host. 3. It
    ends after a while."""
    world = ready_world(Limits(idle_host_seconds=10.0))
    requests = [redistribution(number).model_copy(update={"state_bytes": 2**30}) for number in (2, 3)]
    for request in requests:
        state(world, request)
    world.container.tick()
    own = list(world.hosts.alive())[-1]
    assert own.key.for_host_tasks
    own.become_ready()
    world.container.tick()
    assert given(own) == requests[:1]
    world.settle()
    assert given(own) == requests
    world.jobs(template("others"))
    world.heartbeat(all_shards())
    world.settle()
    assert own.tasks == {}
    world.wait(15.0)
    world.settle()
    assert own.how is not None


def test_specs_from_before_the_stop_say_nothing_about_a_redistribution() -> None:
    """1. A container that was restarted has no specs, or old ones by which the job is to run: it cannot tell. 2. It
    learns of the stop: the redistribution begins. 3. A later commit has the job run: it is refused."""
    world = World()
    world.heartbeat({})
    request = REQUEST.model_copy(update={"stopped_at": 2})
    with pytest.raises(Unavailable, match="older than the stop"):
        state(world, request)
    world.jobs(template())
    with pytest.raises(Unavailable, match="older than the stop"):
        state(world, request)
    world.jobs(template(desired_state="stopped", revision=2))
    assert state(world, request) is HostTaskState.RUNNING
    world.jobs(template(revision=3))
    with pytest.raises(Conflict, match="are set to run"):
        state(world, request)


def test_a_restore_waits_until_the_stop_is_known() -> None:
    world = ready_world().jobs(template())
    with pytest.raises(Unavailable, match="are set to run"):
        state(world, REQUEST.model_copy(update={"stopped_at": None}))
