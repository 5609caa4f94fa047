"""Containers as a heat map: how full each is, by dimension. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf

from penstock.model.reports import TaskState
from penstock.wire.containers import ContainerView
from penstock.wire.overview import ContainerTaskView

SHADES = 10


@dataclass(frozen=True, slots=True)
class Tile:
    """A container in the map. `share`: load over what is usable; None: unknown. `shade` is 0 to `SHADES`."""

    container: ContainerView
    share: float | None
    shade: int | None

    @property
    def label(self) -> str:
        """What the colour says, in words."""
        full = "load unknown" if self.share is None else f"{self.share * 100:.0f} % full"
        state = self.container.state if self.container.state != "live" else self.container.availability
        return f"{self.container.name}: {full}, {state}"


def dimensions(containers: Sequence[ContainerView]) -> list[str]:
    """The dimensions that some container has, the usual ones first."""
    usual = [
        name for name in ("cpu_cores", "memory_bytes", "disk_bytes") if any(name in c.capacity for c in containers)
    ]
    return usual + sorted({name for container in containers for name in container.capacity} - set(usual))


def share(container: ContainerView, dimension: str) -> float | None:
    """How full a container is in a dimension; None: unknown."""
    if container.placement is None:
        return None
    load, usable = (side.get(dimension) for side in (container.placement.load, container.placement.usable))
    return load / usable if load is not None and usable else None


def regions(containers: Sequence[ContainerView], dimension: str) -> Mapping[str, list[Tile]]:
    """The tiles of each region, by name."""
    found: dict[str, list[Tile]] = {}
    for container in sorted(containers, key=lambda each: (each.region, each.name)):
        full = share(container, dimension)
        shade = None if full is None else min(SHADES, max(0, round(full * SHADES)))
        found.setdefault(container.region, []).append(Tile(container, full, shade))
    return found


def worst_first(tasks: Sequence[ContainerTaskView]) -> list[ContainerTaskView]:
    """Those that do not run, or have an error, come first; then those whose lag nobody knows; then by lag, the greatest
    first; else by job and index."""

    def rank(task: ContainerTaskView) -> tuple[bool, float]:
        lag = inf if task.lag_seconds is None else task.lag_seconds
        return task.state == TaskState.RUNNING and not task.error, -lag

    return sorted(tasks, key=rank)
