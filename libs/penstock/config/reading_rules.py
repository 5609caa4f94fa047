"""Rules on how inputs are read: balance by event time, and the watermark of idle inputs."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.config.model import Input, JobConfig
from penstock.config.problems import Problem


def reading_problems(config: JobConfig) -> Iterator[Problem]:
    """Settings of inputs that would do nothing, or not what they say."""
    for name, source in config.inputs.items():
        yield from _balance(f"inputs.{name}", source)
        yield from _idle(f"inputs.{name}", source, config)


def _balance(field: str, source: Input) -> Iterator[Problem]:
    if source.balance_field is not None and source.format != "json":
        detail = f"{field}.balance_field is a field of a JSON value, but the format is {source.format}"
        yield Problem(f"{field}.balance_field", "balance_field_json", detail)
    if source.balance_field is not None and source.balance not in ("auto", "field"):
        detail = f"{field}.balance_field has no effect when balance is {source.balance}: set balance to field or auto"
        yield Problem(f"{field}.balance_field", "balance_field_unused", detail)
    if source.balance == "field":
        yield from _by_field(field, source)


def _by_field(field: str, source: Input) -> Iterator[Problem]:
    if source.format != "json":
        detail = (
            f"{field}.balance is field, which needs a JSON value; the format is {source.format}: use index or sample"
        )
        yield Problem(f"{field}.balance", "balance_needs_json", detail)
    elif source.balance_field is None and source.event_time_column is None:
        detail = f"{field}.balance is field: balance_field or event_time_column must name the field"
        yield Problem(f"{field}.balance_field", "balance_field_required", detail)


def _idle(field: str, source: Input, config: JobConfig) -> Iterator[Problem]:
    if source.idle_timeout_seconds is None:
        if any(other.idle_timeout_seconds is not None for other in config.inputs.values()):
            detail = f"{field} has no idle_timeout_seconds, but another input has: set it for all inputs"
            yield Problem(f"{field}.idle_timeout_seconds", "idle_timeout_of_all", detail)
    elif config.query.python is None and not _any_event_time(config):
        detail = f"{field}.idle_timeout_seconds: needs an event_time_column: there is no watermark without"
        yield Problem(f"{field}.idle_timeout_seconds", "idle_timeout_needs_event_time", detail)


def _any_event_time(config: JobConfig) -> bool:
    return any(source.event_time_column is not None for source in config.inputs.values())
