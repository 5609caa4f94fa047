"""The step that brings a running task to its desired spec. Pure."""

from __future__ import annotations

from enum import Enum

from penstock.config.classify import classify
from penstock.config.model import ChangeKind
from penstock.tasks.spec import TaskSpec


class Step(Enum):
    """From cheap to dear. ADOPT only records the newer spec."""

    NOTHING = "nothing"
    ADOPT = "adopt"
    LIVE = "live"
    RESTART = "restart"


def step_between(running: TaskSpec, desired: TaskSpec) -> Step:
    """The cheapest step from one spec to another. Another generation, restart count or key range needs a restart."""
    if running is desired:
        return Step.NOTHING
    if _layout(running) != _layout(desired):
        return Step.RESTART
    kind = classify(running.config, desired.config).kind
    if kind >= ChangeKind.RESTART:
        return Step.RESTART
    if kind is ChangeKind.LIVE or _order(running) != _order(desired):
        return Step.LIVE
    return Step.NOTHING if running == desired else Step.ADOPT


def _order(spec: TaskSpec) -> tuple[object, ...]:
    """Whether it is to take no more rows, and from where on."""
    return spec.quiescing, spec.level_ms


def _layout(spec: TaskSpec) -> tuple[object, ...]:
    return spec.generation, spec.restarts, spec.key_groups
