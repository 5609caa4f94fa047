"""The dimensions of loads and capacities, by name. Pure.

A load or a capacity is a mapping from names to amounts: a name that is missing is unknown, never zero. Adding a
dimension is adding a row to `DIMENSIONS`, and its capacity to the containers' settings (`further_capacity`).
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
    """`assumed`: what a task is taken to use when neither a measurement nor its reservation says anything."""

    name: str
    assumed: float


DIMENSIONS = (
    Dimension(CPU, 0.25),
    Dimension(MEMORY, 400.0 * 2**20),
    Dimension(DISK, 64.0 * 2**20),
    Dimension(NETWORK, 64.0 * 2**10),
)

NAMES = tuple(dimension.name for dimension in DIMENSIONS)
