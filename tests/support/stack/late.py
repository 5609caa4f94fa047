"""A job that really lags: its base layer lets a task read less than comes in. Somebody on call can mend that."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from pathlib import Path

import orjson

from penstock.control.process import wait_until
from penstock.local.stack import LocalStack
from penstock.model.states import Health
from tests.support.spark.session import unique
from tests.support.stack.rows import KEY_GROUPS, RowJob

FIELD = "max_records_per_trigger"
SLOW = 12
"""Rows of a batch, as the base layer has it: four a second."""
_ROUNDED = KEY_GROUPS
"""A batch is dealt to the partitions in whole rows: it has so many more or fewer than asked for at most."""
_TRIGGER_S = 3.0
_SLO_S = 10.0
_WAITING = 3_000
_PAUSE_S = 1.0
"""Ten rows come each time."""
_LAG_S = 180.0


class LateJob(RowJob):
    """A job of one task that copies rows, ten of which come in a second."""

    def __init__(self, stack: LocalStack, name: str) -> None:
        super().__init__(stack, name)
        self.coming = ExitStack()

    def dry_up(self) -> None:
        """From now on no rows come."""
        self.coming.close()

    def config(self) -> dict[str, object]:
        """The job's base layer."""
        return super().config() | {
            "task_count": 1,
            "trigger_interval_seconds": _TRIGGER_S,
            FIELD: SLOW,
            "slo": {"max_lag_seconds": _SLO_S},
        }

    def wait_lagging(self) -> None:
        """Waits until the Job Service says so."""
        with self._stack.client() as client:
            wait_until(lambda: client.get_job(self.name).health == Health.LAGGING, _LAG_S, f"{self.name} to lag")

    def is_limited_to(self, rows: int) -> bool:
        """Whether the last two batches had so many rows."""
        last = self.batches()[-2:]
        return len(last) == 2 and all(abs(each - rows) <= _ROUNDED for each in last)

    def batches(self) -> list[int]:
        """The rows of the last batches of task 0 of the newest generation, as its checkpoint has them."""
        newest = max(self._checkpoints.glob("g*"), key=lambda folder: int(folder.name.removeprefix("g")))
        files = sorted((newest / "task-0/offsets").glob("[0-9]*"), key=lambda file: int(file.name))
        return [after - before for before, after in pairwise(_offset(file) for file in files)]

    @property
    def _checkpoints(self) -> Path:
        return self._stack.data_dir / "checkpoints" / self.name


def _offset(file: Path) -> int:
    """The sum of the offsets of all partitions, which the last line of the file has."""
    offsets = orjson.loads(file.read_text().splitlines()[-1])
    return sum(offset for partitions in offsets.values() for offset in partitions.values())


@contextmanager
def late(stack: LocalStack) -> Iterator[LateJob]:
    """One that lags, with rows that keep coming; it is deleted at the end of the block."""
    job = LateJob(stack, unique("late").replace("-", "_"))
    job.create()
    try:
        job.send(_WAITING)
        with job.coming:
            job.coming.enter_context(job.fed(_PAUSE_S))
            job.wait_lagging()
            yield job
    finally:
        job.delete()
