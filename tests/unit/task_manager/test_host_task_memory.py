"""The memory of hosts for large states, beside hosts with tasks."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.control.errors import Conflict
from penstock.tasks.redistribution import CopyRequest
from penstock.wire.host_tasks import HostTaskState
from services.task_manager.decide.host_choice import DEFAULT_KEY, host_key_for, place_for
from services.task_manager.decide.model import HostKey, HostPhase, HostView, Limits, Observed
from tests.support.task_manager.world import layout
from tests.unit.task_manager.test_host_tasks import GIB, REQUEST, ready_world

COPY = CopyRequest(job="flights", source=layout(1), target=layout(2, 4), state_bytes=GIB)
OWN = host_key_for(COPY, 16 * GIB)
ISOLATED = replace(DEFAULT_KEY, isolated_task="j/0", memory_bytes=GIB)


def hosts_up(**keys: HostKey) -> Observed:
    """Ready hosts by name; one whose name begins with `idle` is idle."""
    return Observed(
        hosts={
            name: HostView(name, key, HostPhase.READY, 0.0, 0.0 if name.startswith("idle") else None)
            for name, key in keys.items()
        }
    )


@pytest.mark.parametrize(
    ("observed", "capacity", "memory"),
    [
        (hosts_up(), 16 * GIB, 8 * GIB),
        (hosts_up(tasks=DEFAULT_KEY), 8 * GIB, 8 * GIB - GIB * 4 // 3),
        (hosts_up(tasks=DEFAULT_KEY, more=DEFAULT_KEY, isolated=ISOLATED), 8 * GIB, None),
        (hosts_up(busy=OWN), 16 * GIB, 8 * GIB),
        (hosts_up(busy=OWN), 12 * GIB, None),
        (hosts_up(idle=OWN), 12 * GIB, 8 * GIB),
        (hosts_up(idle=replace(OWN, memory_bytes=6 * GIB)), 12 * GIB, 6 * GIB),
        (hosts_up(idle=replace(OWN, memory_bytes=4 * GIB)), 12 * GIB, 8 * GIB),
    ],
)
def test_a_copy_takes_only_memory_that_the_hosts_beside_it_leave(
    observed: Observed, capacity: int, memory: int | None
) -> None:
    found = place_for(COPY, capacity, observed, Limits())
    assert (None if isinstance(found, str) else found.memory_bytes) == memory
    assert not isinstance(found, str) or "a host for the state needs 5120 MiB of memory" in found


def test_hosts_that_other_work_waits_for_take_memory_too() -> None:
    assert isinstance(place_for(COPY, 12 * GIB, hosts_up(), Limits(), [OWN]), str)
    starting = Observed(hosts={"h": HostView("h", OWN, HostPhase.STARTING, 0.0, 0.0)})
    assert isinstance(place_for(COPY, 12 * GIB, starting, Limits(), [OWN]), str), "the idle host is meant for that"


def test_what_cannot_be_left_out_is_done_all_the_same_and_where_the_state_was_copied() -> None:
    request = REQUEST.model_copy(update={"state_bytes": GIB})
    crowded = hosts_up(tasks=DEFAULT_KEY, more=DEFAULT_KEY, isolated=ISOLATED)
    assert place_for(request, 8 * GIB, crowded, Limits()) == replace(OWN, memory_bytes=8 * GIB)
    copied = replace(OWN, memory_bytes=6 * GIB)
    assert place_for(request, 8 * GIB, hosts_up(tasks=DEFAULT_KEY, idle=copied), Limits()) == copied


def test_a_copy_without_memory_is_refused_and_one_that_goes_on_is_not() -> None:
    """1. The container has 2 GiB, of which its host has most. 2. Of another job, the state is small."""
    world = ready_world()
    with pytest.raises(Conflict, match="the hosts that are up leave 682 MiB"):
        world.ask(COPY)
    small = COPY.model_copy(update={"state_bytes": 1})
    assert [world.ask(small).state for _ in range(2)] == [HostTaskState.RUNNING] * 2
