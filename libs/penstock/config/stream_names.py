"""What streams with key groups are called where topics have their names: in offsets. Pure.

The name has the generation that began to read the stream. So offsets say which sections they count in
(`penstock.spark.sections`), and those of a job that was made anew under the same name are others.
"""

from __future__ import annotations

from typing import NamedTuple

_MARK = "stream:"
_SEPARATOR = "#"
# No topic has them in its name.
FIRST_SECTION = 1
"""The position of a key group of which nothing has been read."""


class StreamLog(NamedTuple):
    """The sections of the stream `stream` since `generation`."""

    stream: str
    generation: int

    @property
    def name(self) -> str:
        """Such as `stream:orders#1`."""
        return f"{_MARK}{self.stream}{_SEPARATOR}{self.generation}"


def is_stream_log(name: str) -> bool:
    """Whether the name in offsets is that of a stream."""
    return name.startswith(_MARK)


def stream_log(name: str) -> StreamLog:
    """What `StreamLog.name` gave. Raises ValueError for a topic."""
    stream, separator, generation = name.removeprefix(_MARK).partition(_SEPARATOR)
    if not is_stream_log(name) or not separator:
        raise ValueError(f"{name} is not the name of a stream")
    return StreamLog(stream, int(generation))
