"""What brings a running task to its wanted spec. Pure."""

from __future__ import annotations

from enum import Enum

from penstock.config.classify import classify
from penstock.config.model import ChangeKind
from penstock.tasks.spec import TaskSpec


class Step(Enum):
    """The cheapest step that is enough."""

    NOTHING = "nothing"
    ADOPT = "adopt"
    LIVE = "live"
    RESTART = "restart"


def step_between(running: TaskSpec, wanted: TaskSpec) -> Step:
    """The step from one spec of a task to another; a generation, restart or range that differs needs a restart."""
    if running is wanted:
        return Step.NOTHING
    if _layout(running) != _layout(wanted):
        return Step.RESTART
    kind = classify(running.config, wanted.config).kind
    if kind >= ChangeKind.RESTART:
        return Step.RESTART
    if kind is ChangeKind.LIVE:
        return Step.LIVE
    return Step.NOTHING if running == wanted else Step.ADOPT


def _layout(spec: TaskSpec) -> tuple[object, ...]:
    return spec.generation, spec.restarts, spec.key_groups
