"""Which leader a container obeys: a newer one always, an older one only when the newest epoch was nobody's."""

from __future__ import annotations

import pytest

from penstock.control.errors import Conflict
from penstock.tasks.redistribution import SealRequest
from services.task_manager.membership.heard_leader import FORGET_SECONDS, HeardLeader
from tests.support.task_manager.world import World, host_task, layout

HUGE = 2**50


def test_an_epoch_that_nobody_has_any_more_is_forgotten() -> None:
    """1. An absurd epoch is heard once. 2. The living leader is refused at first. 3. It is obeyed when nobody with the
    absurd epoch has called for long enough."""
    heard = HeardLeader("shard_manager")
    heard.follow(HUGE)
    assert not heard.allows(5, 0.0)
    assert heard.is_refusing
    assert not heard.allows(5, FORGET_SECONDS - 1)
    assert heard.allows(5, FORGET_SECONDS)
    assert (heard.newest, heard.is_refusing) == (5, False)


def test_a_former_leader_stays_refused_while_the_newest_calls() -> None:
    heard = HeardLeader("shard_manager")
    heard.follow(6)
    for at in range(0, int(10 * FORGET_SECONDS), 50):
        assert not heard.allows(5, float(at))
        assert heard.allows(6, float(at))
        heard.follow(6)
        assert not heard.is_refusing


def test_a_container_says_that_it_refuses_a_leader_and_obeys_it_in_the_end() -> None:
    """1. Host task and order with an absurd epoch. 2. The real leaders are refused, and heartbeats say so. 3. Two
    minutes later both are obeyed."""
    world = World().jobs()
    world.heartbeat({0: 1})
    world.settle()
    world.container.add(world.order({0: 1}, leader_epoch=HUGE))
    request = SealRequest(job="flights", layout=layout(1))
    world.container.host_task(host_task(request, HUGE), 0.0)
    for call in (lambda: world.container.add(world.order({0: 1})), lambda: world.ask(request)):
        with pytest.raises(Conflict):
            call()
    beat = world.heartbeat()
    assert beat is not None
    assert beat.refuses == ("shard_manager", "state_syncer")
    world.wait(FORGET_SECONDS)
    assert world.container.add(world.order({0: 1})).tasks.keys() == {0}
    world.ask(request)
    beat = world.heartbeat()
    assert beat is not None
    assert beat.refuses == ()
    assert "refuses" not in beat.model_dump(mode="json"), "a Shard Manager of the release before refuses the field"


def test_an_order_whose_epoch_is_above_its_version_is_refused() -> None:
    """Else the container would never take the shard again."""
    world = World().jobs()
    world.heartbeat({0: 1})
    order = world.order({0: 1}).model_copy(update={"shards": {0: HUGE}})
    with pytest.raises(Conflict, match="version"):
        world.container.drop(order)
    assert world.container.summary().shards == {0: 1}
