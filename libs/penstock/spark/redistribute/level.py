"""Which tasks have to read on before their state can be put together. Pure.

Tasks have watermarks of their own; a merged task can have one only. The greatest is what an unsplit run would have
had, so no window is emitted twice. But rows that a lagging task has not read yet may then be late. So lagging tasks
read on, until they have the greatest watermark or have read all there was when the tasks stopped. A task that reads on
may get beyond the others: then those read on, which ends at the end of the input at the latest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from penstock.spark.redistribute.offsets import SourceOffsets

Ends = Mapping[str, Mapping[int, int]]


@dataclass(frozen=True)
class Standing:
    """Of one task: its watermark (epoch milliseconds, 0 without one) and whether it has read its input to the end."""

    watermark_ms: int
    at_end: bool


def common_watermark_ms(standings: Iterable[Standing]) -> int:
    """The watermark of the merged state; 0 without one."""
    return max(standing.watermark_ms for standing in standings)


def lagging(standings: Sequence[Standing]) -> tuple[int, ...]:
    """The indices of the tasks that have to read on; none when all are level, or no task has a watermark."""
    common = common_watermark_ms(standings)
    return tuple(i for i, task in enumerate(standings) if task.watermark_ms < common and not task.at_end)


def has_read_all(sources: Iterable[SourceOffsets], ends: Ends) -> bool:
    """Whether nothing is left to read below `ends`, which has an offset for each key group of each topic."""
    return all(
        offset >= ends[source.topic][key_group] for source in sources for key_group, offset in source.offsets.items()
    )
