"""Logs: structlog, one event a line, JSON or console. Every hop of a change logs the same `revision`."""

from __future__ import annotations

import logging
import sys
from typing import Any, Literal

import structlog


def configure(service: str, *, log_format: Literal["json", "console"] = "console", level: str = "INFO") -> None:
    """Sets up logging of this process to standard error; every line carries `service`."""
    number = logging.getLevelNamesMapping()[level.upper()]
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(levelname)s %(name)s %(message)s")
    renderer = (
        structlog.processors.JSONRenderer()
        if log_format == "json"
        else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    structlog.contextvars.bind_contextvars(service=service)


def logger(name: str) -> Any:
    """A logger; call it as `log.info("job committed", job=..., revision=...)`."""
    return structlog.get_logger(component=name)
