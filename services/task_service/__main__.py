"""Runs a Task Service: `python -m services.task_service`."""

from __future__ import annotations

from penstock.control.logs import configure
from penstock.wire.app import serve, tls_of
from services.task_service.settings import TaskServiceSettings
from services.task_service.wiring import build


def main() -> None:
    """Serves until SIGTERM."""
    settings = TaskServiceSettings()
    configure("task_service", log_format=settings.log_format, level=settings.log_level)
    process = build(settings)
    serve(process.app, settings.host, settings.port, process, tls=tls_of(process.identity))


if __name__ == "__main__":
    main()
