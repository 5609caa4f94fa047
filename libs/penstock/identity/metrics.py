"""How long this process's certificate is good, as a Prometheus metric of every process."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import Gauge

from penstock.control.errors import TerminalError

_DAY_SECONDS = 86_400
_days_left = Gauge("penstock_certificate_days_left", "Days until the certificate of this process expires.", ["process"])


def observe_certificate(process: str, seconds_left: Callable[[], float | None]) -> None:
    """Shows, at each scrape, how long the certificate of a process is good; NaN while it cannot be read."""

    def days_left() -> float:
        try:
            seconds = seconds_left()
        except (TerminalError, OSError):
            seconds = None
        return float("nan") if seconds is None else seconds / _DAY_SECONDS

    _days_left.labels(process=process).set_function(days_left)
