"""How a job's input is shared by its tasks, in the Job Service's API."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from penstock.wire.jobs import Expiring, StayingExpiry, View, Written

MeasuredSeconds = Annotated[int, Field(ge=1, le=600, description="a measurement over less time counts as unknown")]


class RebalanceWrite(Expiring):
    """`POST .../rebalance`: ranges of key groups by measured traffic, as a write to the highest layer that the caller
    may write. Without `expires_in_seconds` the write never expires.

    Refused when the busiest task would lose less than the share `min_gain` of its input.
    """

    min_gain: float = Field(0.1, ge=0, lt=1)
    min_measured_seconds: MeasuredSeconds = 60
    expires_in_seconds: StayingExpiry = None


class LoadView(View):
    """How ranges share a job's input. `imbalance`: records per second of the busiest task, divided by the mean."""

    largest_records_per_second: float
    imbalance: float


class BalanceView(View):
    """A job's measured traffic, and what it proposes for `task_count` tasks. Null is unknown, never zero.

    `records_per_second` by key group, over the last 10 minutes or since the task started. `bounds` are the
    `key_group_bounds` with the least load of the busiest task. Unknown key groups count as the mean of the known ones.
    `bounds` and all fields below it are null unless at least half of the key groups are known. `gain`: the share of its
    input that the busiest task would lose.
    """

    job: str
    task_count: int
    records_per_second: list[float | None]
    present: list[int]
    bounds: list[int] | None = None
    before: LoadView | None = None
    after: LoadView | None = None
    gain: float | None = None


class Rebalanced(BalanceView):
    """What was measured, and the write that followed from it."""

    written: Written
