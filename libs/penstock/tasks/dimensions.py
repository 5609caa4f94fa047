"""The dimensions of loads and capacities, by name. Pure.

A load or a capacity maps names to amounts. A missing name is unknown, never zero. To add a dimension, add a row to
`DIMENSIONS` and its capacity to the containers' settings (`further_capacity`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

Amounts = Mapping[str, float]

CPU = "cpu_cores"
MEMORY = "memory_bytes"
DISK = "disk_bytes"
NETWORK = "network_bytes_per_second"


class Dimension(NamedTuple):
    """`assumed`: the load of a task when neither a measurement nor a reservation is known."""

    name: str
    assumed: float


DIMENSIONS = (
    Dimension(CPU, 0.25),
    Dimension(MEMORY, 400.0 * 2**20),
    Dimension(DISK, 64.0 * 2**20),
    Dimension(NETWORK, 64.0 * 2**10),
)

NAMES = tuple(dimension.name for dimension in DIMENSIONS)
