"""Which faults happen when, drawn from a seed. Pure."""

from __future__ import annotations

import random
from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple

from tests.support.chaos.proxy import BOTH, Way

# Names of targets that stand for more than one link or process.
STORE = "store"
_FIRST_AT_S = 0.5
_AT_ONCE = 3
_DELAYS_S = (0.02, 0.1, 0.5)
WAYS: Mapping[str, frozenset[Way]] = {
    "both": BOTH,
    "there": frozenset({Way.THERE}),
    "back": frozenset({Way.BACK}),
}


class Kind(Enum):
    """What can be done to a target; see `perform`."""

    CUT = "cut"
    SLOW = "slow"
    RESET = "reset"
    KILL = "kill"
    KILL_HOST = "kill host"
    KILL_SERVER = "kill server"
    FREEZE = "freeze"
    FREEZE_ALONE = "freeze alone"


class Fault(NamedTuple):
    """From `at_s` (seconds after the start) for `seconds`. `detail`: the ways of a cut, the seconds of a delay."""

    at_s: float
    seconds: float
    kind: Kind
    target: str
    detail: str = ""

    @property
    def ends_s(self) -> float:
        """When it is over, in seconds after the start."""
        return self.at_s + self.seconds

    def __str__(self) -> str:
        what = " ".join(word for word in (self.kind.value, self.target, self.detail) if word)
        return f"{self.at_s:6.1f} s  {what}" + (f"  for {self.seconds:.1f} s" if self.seconds else "")


class Targets(NamedTuple):
    """What faults can befall. `links`: links, and names that stand for several of them."""

    links: tuple[str, ...]
    services: tuple[str, ...]
    containers: tuple[str, ...]
    servers: tuple[str, ...] = ()


class Pace(NamedTuple):
    """Seconds: faults begin within `seconds`; pauses between their beginnings; how long short and long ones are."""

    seconds: float
    pause: tuple[float, float]
    short: tuple[float, float]
    long: tuple[float, float]
    long_share: float


_WEIGHTS = {
    Kind.CUT: 6,
    Kind.SLOW: 2,
    Kind.RESET: 2,
    Kind.KILL: 3,
    Kind.KILL_HOST: 1,
    Kind.KILL_SERVER: 1,
    Kind.FREEZE: 1,
    Kind.FREEZE_ALONE: 2,
}


def timetable(seed: int, targets: Targets, pace: Pace) -> tuple[Fault, ...]:
    """The faults of a seed, in order of time; all are over at `pace.seconds`.

    A target has one fault at a time, and at most three faults last at any moment.
    """
    draw = random.Random(seed)
    found: list[Fault] = []
    at = _FIRST_AT_S
    while at < pace.seconds:
        fault = _fault(draw, at, targets, pace)
        lasting = [other for other in found if other.ends_s > at]
        if len(lasting) < _AT_ONCE and fault.target not in {other.target for other in lasting}:
            found.append(fault)
        at = round(at + draw.uniform(*pace.pause), 1)
    return tuple(found)


def _fault(draw: random.Random, at: float, targets: Targets, pace: Pace) -> Fault:
    weights = {kind: weight for kind, weight in _WEIGHTS.items() if targets.servers or kind is not Kind.KILL_SERVER}
    kind = draw.choices(list(weights), list(weights.values()))[0]
    span = pace.long if draw.random() < pace.long_share else pace.short
    seconds = round(min(draw.uniform(*span), pace.seconds - at), 1)
    match kind:
        case Kind.CUT:
            return Fault(at, seconds, kind, draw.choice(targets.links), draw.choice(list(WAYS)))
        case Kind.SLOW:
            return Fault(at, seconds, kind, draw.choice(targets.links), str(draw.choice(_DELAYS_S)))
        case Kind.RESET:
            return Fault(at, 0.0, kind, draw.choice(targets.links))
        case Kind.KILL:
            return Fault(at, seconds, kind, draw.choice((*targets.services, *targets.containers)))
        case Kind.KILL_HOST:
            return Fault(at, 0.0, kind, draw.choice(targets.containers))
        case Kind.KILL_SERVER:
            return Fault(at, seconds, kind, draw.choice(targets.servers))
        case Kind.FREEZE:
            return Fault(at, seconds, kind, draw.choice(targets.containers))
        case Kind.FREEZE_ALONE:
            return Fault(at, seconds, kind, draw.choice((*targets.services, *targets.containers)))
