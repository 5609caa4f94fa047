"""Messages over a pipe, a line of JSON each, by either end."""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable, Iterator

from penstock.config.declare import Model

_MOST_WAITING = 10
_MOST_BYTES = 256 * 2**20


class MessageWriter:
    """Writes messages to a pipe in the order of `send`, on one thread: lines do not mix, and no sender ever waits.

    Calls `lost` when nobody reads any more. The pipe is closed then, and after `close`. `mask` is applied to each line.
    """

    def __init__(
        self, descriptor: int, name: str, lost: Callable[[], None], mask: Callable[[str], str] | None = None
    ) -> None:
        self._descriptor = descriptor
        self._lost = lost
        self._mask = mask
        self._messages: queue.SimpleQueue[Model | threading.Event | None] = queue.SimpleQueue()
        threading.Thread(target=self._serve, name=name, daemon=True).start()

    def send(self, message: Model) -> None:
        """Queues a message."""
        self._messages.put(message)

    def close(self) -> None:
        """Closes the pipe once all messages sent so far are written."""
        self._messages.put(None)

    def is_congested(self) -> bool:
        """Whether the other end reads too slowly for messages that can be left out."""
        return self._messages.qsize() > _MOST_WAITING

    def flush(self, timeout_seconds: float) -> bool:
        """Waits until all messages sent so far are written. Returns False after the timeout."""
        written = threading.Event()
        self._messages.put(written)
        return written.wait(timeout_seconds)

    def _serve(self) -> None:
        try:
            while (message := self._messages.get()) is not None:
                if isinstance(message, threading.Event):
                    message.set()
                else:
                    line = message.model_dump_json()
                    self._write((line if self._mask is None else self._mask(line)).encode() + b"\n")
        except BrokenPipeError:
            self._lost()
        finally:
            os.close(self._descriptor)

    def _write(self, line: bytes) -> None:
        rest = memoryview(line)
        while rest:
            rest = rest[os.write(self._descriptor, rest) :]


def whole_lines(descriptor: int, most_bytes: int = _MOST_BYTES) -> Iterator[bytes]:
    """The lines that come down a pipe; what a writer that was killed left of its last line is dropped. Of a line of
    more than `most_bytes` only the end comes, which is no message: the reader's memory must not be the writer's."""
    with os.fdopen(descriptor, "rb") as stream:
        while line := stream.readline(most_bytes):
            if line.endswith(b"\n"):
                yield line
