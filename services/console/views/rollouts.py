"""The package of a job that goes out: what is shown of it, and what may be asked of it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from penstock.wire.rollouts import RolloutState, RolloutView


class Order(NamedTuple):
    """A form: its name in the API, its title, and what it does."""

    name: str
    title: str
    text: str


PAUSE = Order("pause", "Pause the rollout", "No further tasks get the package until it is resumed.")
RESUME = Order("resume", "Resume the rollout", "The package goes out to the other tasks.")
ABORT = Order("abort", "Abort the rollout", "The package is rejected: all tasks go back to the one before.")
_POSSIBLE: Mapping[RolloutState, tuple[Order, ...]] = {
    "rolling": (PAUSE, ABORT),
    "late": (PAUSE, ABORT),
    "paused": (RESUME, ABORT),
    "halted": (ABORT,),
}


def possible(rollout: RolloutView) -> tuple[Order, ...]:
    """What the Job Service would take now."""
    return _POSSIBLE.get(rollout.state, ())


def share(rollout: RolloutView) -> float | None:
    """The share of tasks that have the package, or get it with their wave; None while that is not known."""
    return None if rollout.upgraded is None or not rollout.tasks else rollout.upgraded / rollout.tasks
