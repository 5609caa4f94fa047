"""Brings the faults of a timetable about, and takes each back when its time is over."""

from __future__ import annotations

import heapq
import itertools
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial

import psutil

from penstock.local.processes import children_with
from penstock.local.services import HOST_MODULE
from tests.support.chaos.freezing import freeze, thaw
from tests.support.chaos.proxy import Way
from tests.support.chaos.stack import ChaosStack
from tests.support.chaos.timetable import WAYS, Fault, Kind

Undo = Callable[[], None]
_TURNED = {Way.THERE: Way.BACK, Way.BACK: Way.THERE}


def perform(stack: ChaosStack, faults: Sequence[Fault], note: Callable[[str], None] = print) -> None:
    """Goes through the faults in their order of time. At the end, or on an error, none is left."""
    started_at, clock = time.monotonic(), threading.Event()
    numbers = itertools.count()
    due: list[tuple[float, int, Fault, Undo | None]] = [(fault.at_s, next(numbers), fault, None) for fault in faults]
    heapq.heapify(due)
    try:
        while due:
            at, _, fault, undo = heapq.heappop(due)
            clock.wait(max(0.0, started_at + at - time.monotonic()))
            if undo is None:
                note(str(fault))
                heapq.heappush(due, (fault.ends_s, next(numbers), fault, begin(stack, fault)))
            else:
                undo()
    finally:
        for _, _, _, undo in due:
            if undo is not None:
                undo()


def begin(stack: ChaosStack, fault: Fault) -> Undo:
    """Lets a fault begin; what ends it."""
    match fault.kind:
        case Kind.CUT:
            return _cut(stack, fault)
        case Kind.SLOW:
            return _slow(stack, fault)
        case Kind.RESET:
            stack.proxy.each([link.reset for link, _ in stack.links_of(fault.target)])
            return _nothing
        case Kind.KILL:
            stack.supervisor.take_down(fault.target)
            return lambda: stack.supervisor.bring_up(fault.target)
        case Kind.KILL_HOST:
            _kill_hosts(stack.supervisor.pid(fault.target))
            return _nothing
        case Kind.KILL_SERVER:
            return stack.crash(fault.target)
        case Kind.FREEZE | Kind.FREEZE_ALONE:
            stopped = freeze(stack.supervisor.pid(fault.target), family=fault.kind is Kind.FREEZE)
            return lambda: thaw(stopped)


def _cut(stack: ChaosStack, fault: Fault) -> Undo:
    ways = WAYS[fault.detail]
    held = [(link, _turned(ways) if is_far else ways) for link, is_far in stack.links_of(fault.target)]
    stack.proxy.each([partial(link.hold, its) for link, its in held])
    return lambda: stack.proxy.each([partial(link.release, its) for link, its in held])


def _slow(stack: ChaosStack, fault: Fault) -> Undo:
    links, seconds = [link for link, _ in stack.links_of(fault.target)], float(fault.detail)
    stack.proxy.each([partial(link.slow_down, seconds) for link in links])
    return lambda: stack.proxy.each([partial(link.slow_down, -seconds) for link in links])


def _kill_hosts(pid: int) -> None:
    for host in children_with(pid, [HOST_MODULE]):
        with suppress(psutil.NoSuchProcess):
            host.kill()


def _turned(ways: frozenset[Way]) -> frozenset[Way]:
    """The ways as seen from the other end."""
    return frozenset(_TURNED[way] for way in ways)


def _nothing() -> None:
    return None
