"""Tasks that finish their batches before a rescale, as a container tells their host and the Task Service."""

from __future__ import annotations

from penstock.model.reports import TaskProgress
from penstock.spark.channel import Live, Progress
from penstock.tasks.spec import TaskSpec, TaskTemplate
from tests.support.task_manager.world import World, running_world, template


def quiescing(revision: int = 1, **changes: object) -> TaskTemplate:
    return template(revision=revision, **changes).model_copy(update={"quiescing": True})


def levelling(level_ms: int = 5_000) -> TaskTemplate:
    return quiescing().model_copy(update={"level_ms": level_ms})


def orders(world: World) -> list[TaskSpec]:
    """What the host was told of `flights/0`, in order."""
    (host,) = world.hosts.all.values()
    return [each.spec for each in host.sent if isinstance(each, Live) and each.spec.task_id == "flights/0"]


def told(world: World) -> list[bool]:
    return [spec.quiescing for spec in orders(world)]


def say_quiet(world: World, is_quiet: bool, level_ms: int | None = None) -> None:
    host = world.host_of("flights/0")
    said = {"quiesced": is_quiet, "level_ms": level_ms}
    world.container.host_event(host.name, Progress(tasks={"flights/0": TaskProgress.model_validate(said)}))


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


def test_tasks_are_told_to_which_watermark_to_read_on_and_when_it_is_over() -> None:
    """1. They take no more rows. 2. They are to read on. 3. To another watermark. 4. The order is gone."""
    world = running_world(template())
    for wanted in (quiescing(), levelling(), levelling(6_000), template()):
        world.jobs(wanted)
        world.settle()
    assert [(spec.quiescing, spec.level_ms) for spec in orders(world)] == [
        (True, None),
        (True, 5_000),
        (True, 6_000),
        (False, None),
    ]
    assert world.container.summary().totals["task_starts"] == 2


def test_the_answer_to_the_order_to_read_on_is_news() -> None:
    """1. A task is quiet. 2. It is to read on: it is not quiet until it says so again. What its host said before and
    is heard late names the order before."""
    world = running_world(template())
    world.jobs(quiescing())
    world.settle()
    say_quiet(world, True)
    world.jobs(levelling())
    world.settle()
    assert not is_reported_quiet(world)
    say_quiet(world, True)
    late = world.reports()["flights/0"].progress
    assert late is not None
    assert late.level_ms is None
    world.container.report_due.clear()
    say_quiet(world, True, 5_000)
    assert world.container.report_due.is_set()
