"""A Task Service in this process, on a real port and a real store."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from penstock.control.process import wait_until
from penstock.local.ports import free_port
from penstock.wire.app import tls_of
from services.task_service.settings import TaskServiceSettings
from services.task_service.wiring import TaskServiceProcess, build
from tests.support.control.serving import serving


class RunningTaskService:
    """A Task Service and where it is."""

    def __init__(self, url: str, process: TaskServiceProcess) -> None:
        self.url = url
        self.process = process

    def has_read(self) -> RunningTaskService:
        """Waits until it has read the store."""
        wait_until(lambda: self.process.cache.reads > 0, 10, "the first read")
        return self


@contextmanager
def task_service(database_url: str, **settings: Any) -> Iterator[RunningTaskService]:
    """A Task Service, on a free port unless told otherwise."""
    chosen = TaskServiceSettings(**{"database_url": database_url, "port": free_port()} | settings)
    process = build(chosen)
    process.start()
    try:
        with serving(process.app, chosen.port, tls_of(process.identity)) as url:
            yield RunningTaskService(url, process)
    finally:
        process.stop()
