"""Logs: structlog, one event a line, JSON or console. Every process on the way of a change logs its `revision`."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Mapping, MutableMapping
from typing import Any, Literal

import structlog

from penstock.control.masks import mask_urls

Mask = Callable[[str], str]
listeners: list[Callable[[Mapping[str, Any]], None]] = []
"""Are told each log line of this process, as fields, before it is written. They neither wait nor raise."""


class _MaskedFormatter(logging.Formatter):
    """Python's own log lines, masked."""

    def __init__(self, mask: Mask) -> None:
        super().__init__("%(levelname)s %(name)s %(message)s")
        self._mask = mask

    def format(self, record: logging.LogRecord) -> str:
        """A line, and the stack of an error."""
        return self._mask(super().format(record))


def configure(
    service: str,
    *,
    log_format: Literal["json", "console"] = "console",
    level: str = "INFO",
    mask: Mask = mask_urls,
) -> None:
    """Sets up logging of this process to standard error; every line carries `service` and went through `mask`."""
    number = logging.getLevelNamesMapping()[level.upper()]
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_MaskedFormatter(mask))
    logging.basicConfig(handlers=[handler], level=logging.WARNING)
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
            _tell,
            structlog.processors.format_exc_info,
            renderer,
            lambda _logger, _method, line: mask(str(line)),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    structlog.contextvars.bind_contextvars(service=service)


def _tell(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    for listener in listeners:
        listener(event)
    return event


def logger(name: str) -> Any:
    """A logger; call it as `log.info("job committed", job=..., revision=...)`."""
    return structlog.get_logger(component=name)
