"""Figures of the model, each with its source. "Measured" names a heading of `tests/bench/README.md`.

Not calibrated, since no run of Penstock recorded it: the noise of a task's rate (`rate_noise`, `host_noise`), what an
out-of-memory loop costs (`OUT_OF_MEMORY_SHARE`), how a job's rate grows with its tasks beyond one machine (taken as
linear), and the memory of a task and of its state. `fitting.py` holds the rest of the model against recorded runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import NamedTuple

# Measured, `overhead`: a windowed aggregation gets through 20,747 rows/s on two cores.
ROWS_PER_CORE_SECOND = 10_000.0
# Measured, `connectors`: a batch of 100 rows takes 52 ms, one of 100,000 rows 0.76 s. So its fixed part takes 52 ms.
BATCH_OVERHEAD_SECONDS = 0.052
# The default of `trigger_interval_seconds`.
TRIGGER_SECONDS = 5.0
# Measured, `rescale_busy`: 3.7 s to 5.3 s pass from the request to the new tasks, of which 2.3 s to 2.6 s are downtime.
ORDER_SECONDS = 2.0
# Measured, `rescale`, 2026-11-24: no state.
DOWN_SECONDS = 1.8
# Measured, `rescale`, 2026-11-24: on heap each new query loads its state (5,000,000 rows: 9.9 s and 11.8 s down).
DOWN_SECONDS_PER_MILLION_HEAP_ROWS = 1.8
# Measured, `rescale`, 2026-11-24: what is copied while the old tasks run (RocksDB 22 s, heap 35 s of 5,000,000 rows).
COPY_SECONDS_PER_MILLION_ROWS = {"heap": 7.0, "rocksdb": 4.4}
# Measured, `hosts`: a driver of its own starts in 18.5 s.
ISOLATED_START_SECONDS = 18.5

OUT_OF_MEMORY_SHARE = 0.5

BASE_MEMORY_BYTES = 150 * 2**20
STATE_BYTES_PER_MILLION_ROWS = 300e6


class Figures(NamedTuple):
    """What a task does, and what a change costs. `fitting.py` takes these from real runs instead.

    `warm_up_share`: of its rate, in the first minute after a change. Noise is relative, of a minute and of a host.
    `down_seconds`: of a change without state.
    """

    rows_per_core_second: float = ROWS_PER_CORE_SECOND
    batch_overhead_seconds: float = BATCH_OVERHEAD_SECONDS
    down_seconds: float = DOWN_SECONDS
    warm_up_share: float = 0.8
    rate_noise: float = 0.05
    host_noise: float = 0.03

    def stands_still(self, millions: float, backend: str, isolated: bool = False) -> float:
        """Seconds in which a job has no tasks while they change; with drivers of their own, while these start, too."""
        loading = DOWN_SECONDS_PER_MILLION_HEAP_ROWS * millions if backend == "heap" else 0.0
        return self.down_seconds + loading + (ISOLATED_START_SECONDS if isolated else 0.0)


USUAL = Figures()


class Rescale(NamedTuple):
    """A recorded rescale: millions of rows of state, and the longer downtime of its two changes."""

    millions: float
    backend: str
    down_seconds: float


# Measured, `rescale`, the table of 2026-11-24.
RECORDED: tuple[Rescale, ...] = (
    Rescale(0.01, "heap", 2.3),
    Rescale(0.0, "heap", 1.8),
    Rescale(1.0, "heap", 2.5),
    Rescale(1.0, "rocksdb", 2.0),
    Rescale(1.0, "heap", 3.5),
    Rescale(1.0, "rocksdb", 2.1),
    Rescale(1.0, "rocksdb", 2.8),
    Rescale(5.0, "rocksdb", 2.0),
    Rescale(5.0, "heap", 11.8),
)


def lead_seconds(millions: float, backend: str) -> float:
    """From the decision to the stop of the old tasks, which go on meanwhile."""
    return ORDER_SECONDS + COPY_SECONDS_PER_MILLION_ROWS[backend] * millions


def downtime_error(recorded: Sequence[Rescale] = RECORDED) -> float:
    """Mean of |model - measured| / measured over the recorded rescales, from which its figures were taken, too."""
    return fmean(abs(USUAL.stands_still(one.millions, one.backend) / one.down_seconds - 1) for one in recorded)
