"""The sections of streams with key groups, which all tasks and generations of a job share.

    <root>/<job>/streams/g<generation>/<stream>/<section>

Whoever first needs a section writes what it has (`io.penstock.streams.SectionLog`); nobody changes it. The generation
is the one that began to read the stream. The folder is deleted when the job is forgotten.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from penstock.config.keygroups import KeyGroupRange
from penstock.config.model import JobConfig
from penstock.config.stream import Stream
from penstock.config.stream_keys import moved_by
from penstock.config.stream_names import FIRST_SECTION, StreamLog, is_stream_log, stream_log
from penstock.control.errors import BrokenTask
from penstock.spark.balance import Ends
from penstock.spark.checkpoint import last_commit, planned_batch, source_folders
from penstock.spark.files import Files
from penstock.spark.redistribute.offsets import SourceOffsets, source_of, topics_in
from penstock.tasks.spec import TaskSpec, key_group_count

COMPACT_EVERY = 64
"""As `io.penstock.streams.SectionLog.COMPACT_EVERY`."""
_BEGIN = FIRST_SECTION - 1
_GENERATION = re.compile(r"g([1-9][0-9]*)", re.ASCII)


@dataclass(frozen=True)
class StreamPart:
    """What a task reads of the streams of its job. `folder`: of all their sections. `begun_in`: by stream the
    generation that began to read it, `generation` where none has. `stop_at`: where it ends to read, if anywhere.
    `keys`: by stream, how its keys are read (`penstock.spark.stream_keys`), where that is noted."""

    folder: str
    generation: int
    key_groups: KeyGroupRange
    begun_in: Mapping[str, int] = field(default_factory=dict)
    stop_at: Ends | None = None
    keys: Mapping[str, str] = field(default_factory=dict)

    def log(self, stream: str) -> StreamLog:
        """The sections of a stream."""
        return StreamLog(stream, self.begun_in.get(stream, self.generation))

    def log_folder(self, stream: str) -> str:
        """The Hadoop path of the sections of a stream."""
        return log_folder(self.folder, self.log(stream))

    def stop_section(self, stream: str) -> int | None:
        """The section that is not read any more; None without one."""
        ends = (self.stop_at or {}).get(self.log(stream).name)
        return None if ends is None else max(ends.values())


def stream_part(
    files: Files, root: str, spec: TaskSpec, checkpoint: str, stop_at: Ends | None = None
) -> StreamPart | None:
    """What a task reads, by its checkpoint; None of a job whose streams, if any, have one key group."""
    if not spec.config.streams or key_group_count(spec.config) == 1:
        return None
    begun = begun_in(checkpoint, files) if checkpoint else {}
    part = StreamPart(sections_folder(root, spec.job), spec.generation, spec.key_groups, begun, stop_at)
    noted = {name: _keys_noted(files, part.log_folder(name)) for name in spec.config.streams}
    return replace(part, keys={name: keys for name, keys in noted.items() if keys is not None})


def _keys_noted(files: Files, log: str) -> str | None:
    try:
        keys = json.loads(files.read(f"{log}/{_BEGIN}")).get("keys")
    except FileNotFoundError:
        return None
    return None if keys is None else str(keys)


def sections_folder(root: str, job: str) -> str:
    """The Hadoop path of the sections of a job's streams."""
    return f"{root.rstrip('/')}/{job}/streams"


def log_folder(folder: str, log: StreamLog) -> str:
    """The Hadoop path of the sections of one stream, below that of all."""
    return f"{folder}/g{log.generation}/{log.stream}"


def begun_in(checkpoint: str, files: Files) -> dict[str, int]:
    """By stream, the generation in which the sections begin that a checkpoint's offsets count in. Raises
    BrokenCheckpoint when the offsets cannot be read."""
    lines = [_noted(checkpoint, folder, files) for _, folder in source_folders(checkpoint, files)]
    batch = last_commit(checkpoint, files)
    if batch is not None:
        lines += planned_batch(checkpoint, batch, files).sources
    names = topics_in(source_of(line) for line in lines if line is not None)
    return dict(stream_log(name) for name in names if is_stream_log(name))


def noted_begin(checkpoint: str, number: int, files: Files) -> SourceOffsets | None:
    """Where source `number` of a checkpoint noted that it begins, if it is a stream with key groups."""
    for known, folder in source_folders(checkpoint, files):
        line = _noted(checkpoint, folder, files) if known == number else None
        source = None if line is None else source_of(line)
        if source is not None and any(map(is_stream_log, source.topics)):
            return source
    return None


def beginning(name: str, part: KeyGroupRange) -> SourceOffsets:
    """Of a task that has read nothing."""
    return SourceOffsets({name: dict.fromkeys(part.members(), FIRST_SECTION)})


def furthest_sections(tasks: Sequence[Iterable[SourceOffsets]]) -> Ends:
    """By stream, for each key group the section to which the task has read that has read furthest."""
    greatest: dict[str, int] = {}
    groups: dict[str, set[int]] = {}
    for source in (source for sources in tasks for source in sources):
        for name, positions in source.topics.items():
            greatest[name] = max(greatest.get(name, FIRST_SECTION), *positions.values())
            groups.setdefault(name, set()).update(positions)
    return {name: dict.fromkeys(sorted(groups[name]), section) for name, section in greatest.items()}


def has_stream_logs(sources: Iterable[SourceOffsets]) -> bool:
    """Whether positions are of streams with key groups."""
    return any(map(is_stream_log, topics_in(sources)))


def require_same_streams(source: JobConfig, target: JobConfig) -> None:
    """Raises BrokenTask unless the positions of the streams of `source` say what `target` has read. Pure."""
    if max(key_group_count(source), key_group_count(target)) == 1:
        return
    for name in sorted(source.streams.keys() | target.streams.keys()):
        before, after = source.streams.get(name), target.streams.get(name)
        for leaf in ("format", "path", "key_groups", "key_columns"):
            if getattr(before, leaf, None) != getattr(after, leaf, None):
                raise BrokenTask(
                    f"streams.{name}.{leaf} differs from that of the checkpoints: their sections are of another stream",
                    rule="same_stream",
                )
        for leaf in sorted(_moved_by(before, after)):
            raise BrokenTask(
                f"streams.{name}.{leaf} reads the key_columns in another way than the checkpoints: rows would be in "
                "other key groups, and lost or read twice",
                rule="same_keys",
            )


def _moved_by(before: Stream | None, after: Stream | None) -> frozenset[str]:
    if before is None or after is None:
        return frozenset()
    return moved_by(before.model_dump(mode="json"), after.model_dump(mode="json"))


def adopt(
    files: Files, sources: Iterable[SourceOffsets], from_folder: str, to_folder: str, generation: int
) -> tuple[SourceOffsets, ...]:
    """The positions of another job's savepoint in sections of a job's own: those that it will need are copied.

    Raises BrokenTask when the other job's sections are gone. Safe to repeat.
    """
    return tuple(_adopted(files, source, from_folder, to_folder, generation) for source in sources)


def _adopted(files: Files, source: SourceOffsets, from_folder: str, to_folder: str, generation: int) -> SourceOffsets:
    topics = {}
    for name, positions in source.topics.items():
        log = stream_log(name)
        own = log._replace(generation=generation)
        old, new = log_folder(from_folder, log), log_folder(to_folder, own)
        there = set(files.names(old))
        wanted = needed(positions)
        # Of a stream that nobody has begun to read there is no section at all.
        missing = [number for number in wanted if str(number) not in there and wanted != (_BEGIN,)]
        if missing:
            raise BrokenTask(
                f"streams.{log.stream}: the sections {missing[0]} to {missing[-1]} that the savepoint counts in are "
                f"not in {old}: they were deleted with the job that took it",
                rule="sections_exist",
            )
        copied = set(files.names(new))
        for number in (number for number in wanted if str(number) in there):
            _copy(files, f"{old}/{number}", f"{new}/{number}", is_there=str(number) in copied)
        topics[own.name] = positions
    return replace(source, topics=topics)


def _copy(files: Files, old: str, new: str, *, is_there: bool) -> None:
    """What is there already is whole, or half of a copy that was killed."""
    if is_there and files.read(new) == files.read(old):
        return
    files.delete(new)
    with suppress(FileExistsError):
        files.copy(old, new)


def needed(positions: Mapping[int, int]) -> tuple[int, ...]:
    """The sections from which a job can go on at these positions: the first, those that some key group has not read,
    the one before them, and those that lead to the files of all others (`SectionLog.files`). Pure."""
    end = max(positions.values())
    wanted = {_BEGIN, *range(min(positions.values()) - 1, end)}
    number = end - 1
    while number > _BEGIN:
        wanted.add(number)
        number -= _span(number)
    return tuple(sorted(wanted))


def _span(number: int) -> int:
    """As `SectionLog.span`."""
    span = 1
    while number % (span * COMPACT_EVERY) == 0:
        span *= COMPACT_EVERY
    return span


def forget_sections(files: Files, root: str, job: str, generation: int) -> None:
    """Deletes the sections that generations up to this one have begun."""
    folder = sections_folder(root, job)
    for name in files.names(folder):
        match = _GENERATION.fullmatch(name)
        if match is not None and int(match[1]) <= generation:
            files.delete(f"{folder}/{name}")


def _noted(checkpoint: str, folder: str, files: Files) -> str | None:
    try:
        return files.read(f"{checkpoint}/sources/{folder}/0").decode().rpartition("\n")[2]
    except FileNotFoundError:
        return None
