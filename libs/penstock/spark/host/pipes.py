"""Lines over a pipe, by either end."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import IO


def write_line(descriptor: int, text: bytes) -> None:
    """Writes `text` and a newline, all of it. Raises BrokenPipeError when nobody reads any more."""
    rest = memoryview(text + b"\n")
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def whole_lines(stream: IO[bytes]) -> Iterator[bytes]:
    """The lines of a stream; what a writer that was killed left of its last line is dropped."""
    for line in stream:
        if line.endswith(b"\n"):
            yield line
