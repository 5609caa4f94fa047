"""Parts of the log of a task's host, without what nobody may see."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import BinaryIO

from penstock.control.errors import NotFound
from penstock.control.masks import Masks
from penstock.wire.task_logs import TaskLog
from services.task_manager.decide.model import Place

_LOG = ".log"


class HostLogs:
    """Reads `<folder>/<host>.log`. `place_of`: of a task by its id. `kept`: values that are shown as `***` from now on,
    as those in `masks` are: a log may have values from before their rotation."""

    def __init__(
        self,
        container: str,
        folder: Path,
        place_of: Callable[[str], Place | None],
        kept: Callable[[], Iterable[str]],
        masks: Masks,
    ) -> None:
        self._container = container
        self._folder = folder
        self._place_of = place_of
        self._kept = kept
        self._masks = masks

    def part(self, task_id: str, *, host: str | None, offset: int | None, limit_bytes: int) -> TaskLog:
        """At most `limit_bytes` from `offset` on; the newest ones when `offset` is None. The offset is of `host`: in a
        host that the caller has not seen, the part begins at the beginning. Raises NotFound."""
        place = self._place_of(task_id)
        if place is None:
            raise NotFound(f"{task_id} has not run in a host of {self._container}", field="task", rule="known")
        first = 0 if offset is not None and host != place.host else offset
        try:
            with (self._folder / f"{place.host}{_LOG}").open("rb") as file:
                size = file.seek(0, 2)
                begin, lines = whole_lines(file, size, first, limit_bytes)
        except FileNotFoundError as error:
            raise NotFound(f"the log of {place.host} is gone", field="task", rule="known") from error
        self._masks.add(self._kept())
        return TaskLog(
            task=task_id,
            container=self._container,
            host=place.host,
            begin=begin,
            end=begin + len(lines),
            size_bytes=size,
            tasks=place.tasks,
            text=self._masks.apply(lines.decode(errors="replace")) if lines.endswith(b"\n") else _too_long(lines),
        )


def _too_long(lines: bytes) -> str:
    """A value that is kept might be cut in two, and then be shown."""
    return f"[a line of more than {len(lines)} bytes is left out]\n" if lines else ""


def whole_lines(file: BinaryIO, size: int, offset: int | None, limit_bytes: int) -> tuple[int, bytes]:
    """Where whole lines begin, at `offset` or after it, and at most `limit_bytes` of them. The rest of a line in which
    the offset is does not count. Only the beginning of a line that is too long has no line end; a line that is not
    complete yet is left for the next call."""
    begin = max(0, size - limit_bytes) if offset is None or offset > size else offset
    file.seek(0)
    if begin > 0:
        file.seek(begin - 1)
        rest = file.readline(limit_bytes + 1)
        begin += len(rest) - 1
        if not rest.endswith(b"\n"):
            return begin, b""
    lines = file.read(limit_bytes)
    complete = lines.rfind(b"\n") + 1
    return begin, lines[:complete] if complete or len(lines) < limit_bytes else lines
