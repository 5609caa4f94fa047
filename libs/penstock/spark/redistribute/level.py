"""Which tasks have to read on before their state can be put together, and how far. Pure.

Tasks have watermarks of their own; a merged task can have one only. The greatest, the *goal*, is what an unsplit run
would have had, so no window is emitted twice. But rows that a lagging task has not read yet may then be late. So it
reads on, in each key group to its *cut*: the first row whose event time is beyond the goal and the input's delay. A
row that is late at the goal lies before the cut, unless it is behind its own key group by more than the delay. And no
row before the cut brings a watermark beyond the goal: nobody overshoots, so one pass is enough.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from penstock.spark.balance import Ends
from penstock.spark.redistribute.offsets import SourceOffsets

Span = tuple[int, int]

_FIRST_SPAN = 20_000
_SPAN_GROWTH = 4


def lagging(watermarks_ms: Sequence[int], at_end: Callable[[int], bool]) -> tuple[int, ...]:
    """The indices of the tasks that have to read on; none when all are level, or no task has a watermark.

    `watermarks_ms`: epoch milliseconds, 0 without one. `at_end`: whether a task has read its input to the end.
    """
    common = max(watermarks_ms)
    return tuple(i for i, watermark in enumerate(watermarks_ms) if watermark < common and not at_end(i))


def common_watermark(watermarks_ms: Sequence[int], has_state: bool) -> int:
    """The watermark with which the tasks of the new generation begin: milliseconds since 1970, 0 without one.

    Of a query with state the greatest, so no window is opened again. One without state drops no row as late, so its
    tasks are not levelled; its watermark only tells the readers of its output how far it has come. That is as far as
    the task that is furthest behind: its rows, too, are still to be written.
    """
    return max(watermarks_ms) if has_state else min(watermarks_ms)


def offsets_left(sources: Iterable[SourceOffsets], ends: Ends) -> int:
    """How many offsets are left to read below `ends`, which has an offset for each key group of each topic."""
    return sum(
        max(0, ends[topic][key_group] - offset)
        for source in sources
        for topic, offsets in source.topics.items()
        for key_group, offset in offsets.items()
    )


def furthest(tasks: Iterable[Sequence[SourceOffsets]], topic: str) -> dict[int, int]:
    """The next offset of each key group of `topic` that some tasks read; the greatest where several sources read it."""
    offsets: dict[int, int] = {}
    for source in (source for sources in tasks for source in sources):
        for key_group, offset in source.topics.get(topic, {}).items():
            offsets[key_group] = max(offset, offsets.get(key_group, offset))
    return offsets


def cuts(
    begins: Mapping[int, int], ends: Mapping[int, int], first_beyond: Callable[[Mapping[int, Span]], Mapping[int, int]]
) -> dict[int, int]:
    """The offset of the first row beyond, from `begins` on and by key group; its end where there is none before.

    `first_beyond` searches a span of offsets of each given key group. It returns the first such row where there is one.
    Spans grow, so a near cut costs one short search, and a far one not much more than the rows before it.
    """
    found: dict[int, int] = {}
    span, open_from = _FIRST_SPAN, dict(begins)
    while open_from:
        found |= {group: begin for group, begin in open_from.items() if begin >= ends[group]}
        spans = {
            group: (begin, min(begin + span, ends[group])) for group, begin in open_from.items() if group not in found
        }
        if spans:
            found |= first_beyond(spans)
        open_from = {group: until for group, (_, until) in spans.items() if group not in found}
        span *= _SPAN_GROWTH
    return found
