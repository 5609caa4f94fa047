"""Rows of containers as answers. Pure."""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError

from penstock.tasks.dimensions import CPU, DISK, MEMORY
from penstock.wire.containers import ContainerView, PlacementView


def container_view(row: Any) -> ContainerView:
    """A row of `services.job_service.store.fleet` with its capacity in every dimension."""
    own = {CPU: row.cpu_cores, MEMORY: float(row.memory_bytes), DISK: float(row.disk_bytes)}
    made = {"capacity": {**own, **row.further_capacity}, "placement": _placement(row.placement)}
    return ContainerView(**made, **{name: getattr(row, name) for name in ContainerView.model_fields.keys() - made})


def _placement(written: Any) -> PlacementView | None:
    """None, unknown, as well for what another version has written."""
    try:
        return None if written is None else PlacementView.model_validate(written)
    except ValidationError:
        return None
