"""The log of a task's host: what the Job Service asks of a Task Manager, and tells users.

Task Manager (7100+): GET /v1/tasks/{job}/{index}/log?host=&offset=&limit_bytes=  (-> TaskLog; 404 when the task was
never in a host here, or the file of its host is gone)
"""

from __future__ import annotations

from functools import partial
from typing import Any

import httpx
from pydantic import Field

from penstock.wire.endpoints import read_answer
from penstock.wire.http import Identity, answered, internal_client, path_of
from penstock.wire.jobs import View

SMALLEST_PART_BYTES, LARGEST_PART_BYTES = 1024, 256 * 1024
DEFAULT_PART_BYTES = 64 * 1024
_TIMEOUT = httpx.Timeout(5.0, connect=0.5)


class TaskLog(View):
    """A part of a host's log, in whole lines. `begin`, `end`: its place in the file, in bytes; ask for `end` next.
    `size_bytes`: of the whole file. `tasks`: how many tasks the host runs now, whose lines are there too.

    Values of secrets and passwords are `***`. A line that is longer than the part is left out.
    """

    task: str
    container: str
    host: str
    begin: int = Field(ge=0)
    end: int = Field(ge=0)
    size_bytes: int = Field(ge=0)
    tasks: int = Field(ge=0)
    text: str


class TaskLogClient:
    """Asks containers. Safe from any thread."""

    def __init__(self, identity: Identity | None = None) -> None:
        self._http = internal_client(identity, timeout=_TIMEOUT)

    def part(
        self, url: str, job: str, index: int, *, host: str | None, offset: int | None, limit_bytes: int
    ) -> TaskLog:
        """A part of the log by the container at `url`. Raises Unavailable, and UserError when it refuses."""
        asked: dict[str, Any] = {"host": host, "offset": offset, "limit_bytes": limit_bytes}
        params = {name: value for name, value in asked.items() if value is not None}
        where = f"{url.rstrip('/')}{path_of('v1', 'tasks', job, str(index), 'log')}"
        return read_answer(TaskLog, answered(url, partial(self._http.get, where, params=params)), url)
