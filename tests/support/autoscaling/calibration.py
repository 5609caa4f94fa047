"""Figures of the model, each with its source. "Measured" names a heading of `tests/bench/README.md`.

Not calibrated, since no run of Penstock recorded it: the noise of a task's rate (`RATE_NOISE`, `HOST_NOISE`), the slow
first minute after a change (`WARM_UP_SHARE`), what an out-of-memory loop costs (`OUT_OF_MEMORY_SHARE`), and how a
job's rate grows with its tasks beyond one machine (taken as linear), and the memory of a task and of its state. So the
error of the whole model is unknown; only that of its downtimes is computed (`downtime_error`).
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

WARM_UP_SHARE = 0.8
RATE_NOISE = 0.05
HOST_NOISE = 0.03
OUT_OF_MEMORY_SHARE = 0.5

BASE_MEMORY_BYTES = 150 * 2**20
STATE_BYTES_PER_MILLION_ROWS = 300e6


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


def down_seconds(millions: float, backend: str, isolated: bool = False) -> float:
    """How long a job stands still while its tasks change; with drivers of their own, while these start, too."""
    loading = DOWN_SECONDS_PER_MILLION_HEAP_ROWS * millions if backend == "heap" else 0.0
    return DOWN_SECONDS + loading + (ISOLATED_START_SECONDS if isolated else 0.0)


def lead_seconds(millions: float, backend: str) -> float:
    """From the decision to the stop of the old tasks, which go on meanwhile."""
    return ORDER_SECONDS + COPY_SECONDS_PER_MILLION_ROWS[backend] * millions


def downtime_error(recorded: Sequence[Rescale] = RECORDED) -> float:
    """Mean of |model - measured| / measured over the recorded rescales, from which its figures were taken, too."""
    return fmean(abs(down_seconds(one.millions, one.backend) / one.down_seconds - 1) for one in recorded)
