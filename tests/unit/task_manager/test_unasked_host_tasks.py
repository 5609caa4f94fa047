"""What a State Syncer asked for that ended before it could take it back."""

from __future__ import annotations

import pytest

from penstock.control.errors import Conflict
from penstock.spark.channel import CancelHostTask
from penstock.tasks.redistribution import CopyRequest
from penstock.wire.host_tasks import HostTaskState
from services.task_manager.decide.model import Limits
from tests.support.task_manager.world import World, host_task, layout
from tests.unit.task_manager.test_host_tasks import KEY, ready_world, state


@pytest.mark.parametrize("begun", [False, True])
def test_a_copy_that_nobody_asks_about_any_more_is_given_up(begun: bool) -> None:
    """1. A State Syncer asks for a copy and then no more: it died before it could take it back. 2. As long as somebody
    asks the copy goes on. 3. After ten minutes of silence its host is told, once; it never begins if none has it."""
    world = ready_world(None if begun else Limits(warm_hosts=0))
    copy = CopyRequest(job="flights", source=layout(1), target=layout(2), state_bytes=0)
    key = host_task(copy).key
    state(world, copy)
    if begun:
        world.container.tick()
    for seconds in (599.0, 599.0):
        world.wait(seconds)
        assert not told_to_give_up(world, key)
        assert state(world, copy) is HostTaskState.RUNNING
    world.wait(600.0)
    world.container.tick()
    assert len(told_to_give_up(world, key)) == begun
    with pytest.raises(Conflict, match="was cancelled"):
        state(world, copy)


def test_a_redistribution_that_nobody_asks_about_goes_on() -> None:
    """Its job is stopped, and the next State Syncer asks again, however late."""
    world = ready_world()
    state(world)
    world.container.tick()
    world.wait(1_800.0)
    assert not told_to_give_up(world, KEY)


def told_to_give_up(world: World, key: str) -> list[str]:
    """That a host task is cancelled, for each time that a host was told."""
    sent = [command for host in world.hosts.alive() for command in host.sent]
    return [command.key for command in sent if isinstance(command, CancelHostTask) and command.key == key]
