"""Checkpoints on the shared file system, behind the real fence's rules, and the sinks that the tasks write to.

An input grows for ever at the same rate in each key group. A batch reads from the checkpoint's offsets up to the end,
and its commit takes the offsets on and writes the rows, both or neither. `complain` is told when a row is lost or
written twice, or when somebody commits who must not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from penstock.control.errors import BrokenTask, Fenced, PenstockError
from penstock.spark import fence
from penstock.tasks.redistribution import CopyRequest, Layout, RedistributionRequest

ROWS_PER_SECOND = 3.0
SMALL_BATCH = 24
"""Rows of a key group."""


class Place(NamedTuple):
    """Where a task's checkpoint of one generation is."""

    job: str
    generation: int
    index: int


class Planned(NamedTuple):
    """Where a batch ends, by key group, and whether that is all there is."""

    end: dict[int, int]
    takes_all: bool


@dataclass
class Checkpoint:
    """`offsets` by key group; `token` of the FENCE file. `watermark_ms`: 0 without one."""

    fence: str | None = None
    is_sealed: bool = False
    offsets: dict[int, int] = field(default_factory=dict)
    watermark_ms: int = 0
    batches: int = 0
    copied: tuple[Layout, Layout] | None = None


@dataclass
class Files:
    """All checkpoints, and for each job's line of generations how far its sink has every key group."""

    now: Callable[[], float]
    complain: Callable[[str], None]
    checkpoints: dict[Place, Checkpoint] = field(default_factory=dict)
    lines: dict[tuple[str, int], int] = field(default_factory=dict)
    sinks: dict[tuple[str, int, int], int] = field(default_factory=dict)
    fenced_commits: int = 0
    commits: int = 0

    def claim(self, place: Place, epoch: int | None, holder: str, mark: fence.Mark | None = None) -> str:
        """As `penstock.spark.files.LocalFiles.claim`."""
        checkpoint = self.checkpoints.setdefault(place, Checkpoint())
        token, checkpoint.fence = fence.claimed(checkpoint.fence, str(place), epoch, holder, mark)
        return str(token)

    def open(self, place: Place, token: str) -> dict[int, int]:
        """The offsets that a task goes on from. Raises Fenced for a generation that was sealed."""
        checkpoint = self.checkpoints[place]
        if checkpoint.is_sealed:
            raise Fenced(f"FENCED: {place} was sealed")
        fence.require_newest(checkpoint.fence or "", token, str(place))
        return dict(checkpoint.offsets)

    def is_at_cuts(self, offsets: Mapping[int, int], key_groups: Iterable[int], level_ms: int | None) -> bool:
        """Whether nothing is left to read before a watermark."""
        return level_ms is None or all(offsets.get(group, 0) >= _cut(level_ms) for group in key_groups)

    def plan(
        self, place: Place, offsets: Mapping[int, int], key_groups: Iterable[int], level_ms: int | None
    ) -> Planned:
        """Where a batch ends that begins now, at most at the cuts for `level_ms`. Every second task has small batches:
        it lags after a while without it."""
        limit = SMALL_BATCH if place.index % 2 else None
        newest = int(self.now() * ROWS_PER_SECOND)
        begins = {group: offsets.get(group, 0) for group in key_groups}
        last = newest if level_ms is None else min(newest, _cut(level_ms))
        ends = {group: last if limit is None else min(last, begin + limit) for group, begin in begins.items()}
        return Planned(
            {group: max(begins[group], end) for group, end in ends.items()}, all(end >= newest for end in ends.values())
        )

    def watermark_ms(self, place: Place) -> int:
        """The watermark after the last batch."""
        return self.checkpoints[place].watermark_ms

    def commit(self, place: Place, token: str, begin: Mapping[int, int], end: Mapping[int, int]) -> None:
        """Publishes a batch. Raises Fenced when somebody else has claimed the checkpoint."""
        checkpoint = self.checkpoints[place]
        try:
            fence.require_newest(checkpoint.fence or "", token, str(place))
            if checkpoint.is_sealed:
                raise Fenced(f"FENCED: {place} was sealed")
        except Fenced:
            self.fenced_commits += 1
            raise
        self.commits += 1
        checkpoint.batches += 1
        watermark_ms = int(max(end.values(), default=0) / ROWS_PER_SECOND * 1000)
        checkpoint.watermark_ms = max(checkpoint.watermark_ms, watermark_ms)
        line = self.line(place.job, place.generation)
        for group, offset in end.items():
            self._write(place, (place.job, line, group), begin.get(group, 0), offset)
            checkpoint.offsets[group] = offset

    def copy_state(self, request: CopyRequest, holder: str) -> None:
        """Claims the target's checkpoints and leaves a copy there; the source is only read."""
        places = [Place(request.job, request.target.generation, index) for index in range(len(request.target.ranges))]
        for place in places:
            self.claim(place, None, holder, fence.BEFORE_ALL_STOPS)
        if any(self.checkpoints.get(Place(request.job, request.target.generation, 0), Checkpoint()).offsets):
            self.complain(
                f"{holder} copies state into {request.job} generation {request.target.generation}, which is used"
            )
        for place in places:
            self.checkpoints[place].copied = (request.source, request.target)

    def redistribute(self, request: RedistributionRequest, holder: str) -> None:
        """Writes the target's checkpoints from the source's, which nobody owns from now on."""
        job, source, target = request.job, request.source, request.target
        mark = None if request.stopped_at is None else fence.Mark(request.stopped_at, target.generation)
        offsets: dict[int, int] = {}
        watermark_ms = 0
        for index in range(len(source.ranges)):
            place = Place(job, source.generation, index)
            self.open(place, self.claim(place, None, holder, mark))
            offsets |= self.checkpoints[place].offsets
            watermark_ms = max(watermark_ms, self.checkpoints[place].watermark_ms)
        self.lines[job, target.generation] = self.line(job, source.generation)
        for index, groups in enumerate(target.ranges):
            place = Place(job, target.generation, index)
            self.claim(place, None, holder, mark)
            copied, self.checkpoints[place].copied = self.checkpoints[place].copied, None
            if copied not in (None, (source, target)):
                self.complain(f"{place} has a copy of other layouts")
            own = {group: offsets[group] for group in range(groups.lo, groups.hi) if group in offsets}
            self.checkpoints[place].offsets, self.checkpoints[place].watermark_ms = own, watermark_ms

    def seal(self, job: str, layout: Layout, holder: str) -> None:
        """Nothing of the generation commits any more."""
        for index in range(len(layout.ranges)):
            place = Place(job, layout.generation, index)
            self.claim(place, None, holder)
            self.checkpoints[place].is_sealed = True

    def line(self, job: str, generation: int) -> int:
        """The first generation of those that go on from each other."""
        return self.lines.get((job, generation), generation)

    def is_owner(self, place: Place, token: str) -> bool:
        """Whether a commit under the token would be taken."""
        checkpoint = self.checkpoints.get(place)
        if checkpoint is None or checkpoint.fence is None or checkpoint.is_sealed:
            return False
        return checkpoint.fence.split("\n", 1)[0] == token

    def _write(self, place: Place, sink: tuple[str, int, int], begin: int, end: int) -> None:
        written = self.sinks.get(sink, 0)
        if begin != written:
            what = "twice" if begin < written else "never"
            self.complain(f"rows {min(begin, written)} to {max(begin, written)} of {sink} come {what}: {place}")
        self.sinks[sink] = max(end, written)


def _cut(level_ms: int) -> int:
    """The first row beyond the watermark."""
    return int(level_ms * ROWS_PER_SECOND / 1000)


def kind_of(error: PenstockError) -> str:
    """The kind of a failure on a host, as `penstock.spark.failures` has it."""
    if isinstance(error, Fenced):
        return "fenced"
    return "broken_task" if isinstance(error, BrokenTask) else "retryable"
