"""Tasks that finish their batches before a rescale, as a container tells their host and the Task Service."""

from __future__ import annotations

from penstock.spark.channel import Live, Progress
from penstock.tasks.spec import TaskTemplate
from tests.support.task_manager.world import World, running_world, template


def quiescing(revision: int = 1, **changes: object) -> TaskTemplate:
    return template(revision=revision, **changes).model_copy(update={"quiescing": True})


def told(world: World) -> list[bool]:
    """What the host was told of `flights/0`, in order."""
    (host,) = world.hosts.all.values()
    lives = [each for each in host.sent if isinstance(each, Live) and each.spec.task_id == "flights/0"]
    return [each.spec.quiescing for each in lives]


def say_quiet(world: World, is_quiet: bool) -> None:
    host = world.host_of("flights/0")
    progress = Progress.model_validate({"type": "progress", "tasks": {"flights/0": {"quiesced": is_quiet}}})
    world.container.host_event(host.name, progress)


def is_reported_quiet(world: World) -> bool:
    progress = world.reports()["flights/0"].progress
    return progress is not None and progress.quiesced


def test_tasks_are_held_and_released_without_a_restart() -> None:
    """1. The job is to take no more rows: each task is told once. 2. The order is gone: each is told that, too."""
    world = running_world(template())
    world.jobs(quiescing())
    world.settle()
    assert told(world) == [True]
    world.jobs(template())
    world.settle()
    assert told(world) == [True, False]
    assert world.container.summary().totals["task_starts"] == 2


def test_a_task_that_starts_meanwhile_is_held_from_its_start() -> None:
    world = running_world(quiescing())
    assert world.hosts.running()["flights/0"].spec.quiescing
    assert told(world) == []


def test_a_task_is_reported_as_quiet_at_once_and_only_for_the_present_order() -> None:
    """1. The host says that the batch is done: a report is due. 2. Released and held again: not quiet until it says so
    again."""
    world = running_world(template())
    world.jobs(quiescing())
    world.settle()
    world.container.report_due.clear()
    assert not is_reported_quiet(world)
    say_quiet(world, True)
    assert world.container.report_due.is_set()
    assert is_reported_quiet(world)
    world.jobs(template())
    world.settle()
    assert not is_reported_quiet(world)
    world.jobs(quiescing())
    world.settle()
    assert not is_reported_quiet(world)


def test_a_restart_for_a_change_ends_the_quiet() -> None:
    """A write that is committed meanwhile restarts the tasks; the new run has not said that it is quiet."""
    world = running_world(template())
    world.jobs(quiescing())
    world.settle()
    say_quiet(world, True)
    world.jobs(quiescing(revision=2, trigger_interval_seconds=1.0))
    world.settle()
    assert not is_reported_quiet(world)
