"""Where containers are and what they offer, what tasks use, and how the Shard Manager is set: drawn from the seed.

All of it is drawn apart from the scheduler's course of events, so that asking for it changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from penstock.tasks.dimensions import CPU, DISK, MEMORY, NETWORK
from penstock.wire.cluster import Capacity

REGIONS = ("local", "west")
LABELS = {"disk": "ssd"}
CHANGE_EVERY_SECONDS = 30.0
MEAN_OF_A_TASK = {CPU: 0.1, MEMORY: 3.0e8, DISK: 5.0e8, NETWORK: 2.0e5}
MOST_MEANS = 4.0
"""No task of the tail uses more than so many times the mean of its kind."""
LARGE_SIZE = 32
LABELLED = 0.4
"""The share of cells where machines have a label, and jobs ask for it."""


class Terrain:
    """`is_calm`: from now on every task uses the same. `is_large`: placement has the product's periods.
    `placement`: settings of the Shard Manager. `asks`: which containers jobs may ask for, as fields of their
    configurations."""

    def __init__(self, seed: int, now: Callable[[], float]) -> None:
        self._seed = seed
        self._now = now
        self._bases: dict[str, dict[str, float]] = {}
        self._used: dict[tuple[str, int, int], dict[str, float]] = {}
        self.is_calm = self.is_large = False
        self._size = 1
        random = Random(f"terrain {seed}")
        self.regions = random.choice((REGIONS, REGIONS[:1]))
        self._level = random.choice((0.5, 1.0, 1.0, 2.0))
        self.placement: dict[str, Any] = {
            "replacement_seconds": 60.0,
            "load_check_seconds": 10.0,
            "forget_lost_seconds": 100.0,
            "move_budget": random.choice((6, 1000)),
            "moves_in_flight": random.choice((3, 32)),
        }
        self.asks: tuple[dict[str, Any], ...] = tuple({"region": region} for region in (None, *self.regions))
        self._has_labels = random.random() < LABELLED
        if self._has_labels:
            asks = ({**ask, "container_labels": LABELS} for ask in ({"region": None}, {"region": self.regions[-1]}))
            self.asks = (*({**ask, "container_labels": {}} for ask in self.asks), *asks)

    def become_large(self) -> None:
        """A cell of hundreds of containers: each is as large as the product's, and placement is as the product's.

        So shards are placed by newer loads after half an hour only, when the simulation is over.
        """
        self.is_large = True
        self._size = LARGE_SIZE
        self.placement = {"move_budget": 1000, "moves_in_flight": 32}

    def region(self, container: str) -> str:
        """Every second machine is in the second region, if there is one."""
        return self.regions[int(container.removeprefix("c")) % len(self.regions)]

    def labels(self, container: str) -> dict[str, str]:
        """Every third machine has the label, if there is one: in each region one of the first four."""
        return LABELS if self._has_labels and int(container.removeprefix("c")) % 3 == 0 else {}

    def capacity(self, container: str) -> Capacity:
        """Some machines are twice as large. What the network can do is not told."""
        size = self._size * Random(f"{self._seed} {container}").choice((1, 1, 2))
        return Capacity(cpu_cores=1.0 * size, memory_bytes=2**32 * size, disk_bytes=2**32 * size)

    def use(self, job: str, index: int) -> dict[str, float]:
        """What a task uses now: that of its job, more or less, and another every while until all is calm."""
        period = -1 if self.is_calm else int(self._now() // CHANGE_EVERY_SECONDS)
        key = (job, index, period)
        if key not in self._used:
            random = Random(f"{self._seed} {key}")
            own = random.lognormvariate(0.0, 0.4)
            self._used[key] = {
                name: mean * min(MOST_MEANS, own * random.lognormvariate(0.0, 0.2))
                for name, mean in self._base(job).items()
            }
        return self._used[key]

    def _base(self, job: str) -> dict[str, float]:
        """Of a job's tasks: a heavy tail in each dimension, of which the network is measured for some jobs only."""
        if job not in self._bases:
            random = Random(f"{self._seed} {job}")
            shares = {
                name: mean * self._level * min(MOST_MEANS, random.paretovariate(1.5) / 3.0)
                for name, mean in MEAN_OF_A_TASK.items()
            }
            self._bases[job] = shares if random.random() < 0.5 else {name: shares[name] for name in (CPU, MEMORY, DISK)}
        return self._bases[job]
