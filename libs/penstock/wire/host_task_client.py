"""Client of a Task Manager's host tasks, for the State Syncer and tests."""

from __future__ import annotations

from functools import partial
from typing import Any

import httpx

from penstock.control.errors import Unavailable
from penstock.tasks.host_task import HostTask
from penstock.wire.cluster import as_json
from penstock.wire.endpoints import read_answer
from penstock.wire.host_tasks import HostTaskAnswer
from penstock.wire.http import Identity, error_of, internal_client, path_of, reached

_MARGIN_SECONDS = 4.0
_CONNECT_SECONDS = 1.0
"""A container that is gone does not keep a worker of the State Syncer for longer."""


class HostTaskClient:
    """Asks containers. Safe from any thread."""

    def __init__(self, identity: Identity | None = None) -> None:
        self._http = internal_client(identity)

    def put(self, container: str | None, url: str, task: HostTask, *, wait_seconds: float) -> HostTaskAnswer:
        """Begins the work or asks how far it is, waiting at most `wait_seconds` for its end. Another container that has
        the address meanwhile does not answer.

        Raises Unavailable, and UserError when the container refuses the task.
        """
        timeout = httpx.Timeout(wait_seconds + _MARGIN_SECONDS, connect=_CONNECT_SECONDS)
        query = _named(container) | {"wait_seconds": wait_seconds}
        response = self._call("PUT", url, task.key, json=as_json(task), params=query, timeout=timeout)
        return read_answer(HostTaskAnswer, response, url)

    def cancel(self, container: str | None, url: str, key: str, leader_epoch: int) -> None:
        """Takes a task back. Raises Unavailable, and UserError when the container has heard of a newer leader."""
        timeout = httpx.Timeout(_MARGIN_SECONDS, connect=_CONNECT_SECONDS)
        query = _named(container) | {"leader_epoch": leader_epoch}
        self._call("DELETE", url, key, params=query, timeout=timeout)

    def close(self) -> None:
        """Closes connections."""
        self._http.close()

    def _call(self, method: str, url: str, key: str, **options: Any) -> httpx.Response:
        where = f"{url.rstrip('/')}{path_of('v1', 'host-tasks', key)}"
        response = reached(url, partial(self._http.request, method, where, **options))
        if response.is_server_error:
            raise Unavailable(f"{url}: {response.status_code}")
        if response.is_error:
            raise error_of(response)
        return response


def _named(container: str | None) -> dict[str, Any]:
    return {} if container is None else {"container": container}
