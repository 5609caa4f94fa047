"""What a plan notes of event time: results that wait for newer rows, and a time column that may lie behind the
watermark of the job that writes it. By the text of SQL alone, so nothing is noted of a Python query. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from services.job_service.flows import read_by
from services.job_service.late_producers import topics_written

Config = Mapping[str, Any]
_WINDOWS = re.compile(r"\b(session_)?window\s*\(", re.IGNORECASE)
_STATEFUL = re.compile(r"\b(session_)?window\s*\(|\bjoin\b|\bgroup\s+by\b", re.IGNORECASE)


def time_notes(config: Config, others: Mapping[str, Config]) -> list[str]:
    """The notes on a complete configuration. `others`: those of the jobs that write its inputs, and of any more."""
    return [*_waiting(config), *_behind(config, others)]


def _waiting(config: Config) -> Iterator[str]:
    inputs = config.get("inputs") or {}
    timed = [name for name, source in inputs.items() if source.get("watermark_delay") is not None]
    idle = all(source.get("idle_timeout_seconds") is not None for source in inputs.values())
    if timed and not idle and _WINDOWS.search(_sql(config)):
        fields = ", ".join(f"inputs.{name}.idle_timeout_seconds" for name in inputs)
        yield (
            "query.sql: the last windows wait for newer rows, however long none come: set "
            f"{fields}, after which the watermark advances with the clock, if they must not"
        )


def _behind(config: Config, others: Mapping[str, Config]) -> Iterator[str]:
    for name, source in (config.get("inputs") or {}).items():
        column = source.get("event_time_column")
        for writer, written in sorted(others.items()):
            if column is not None and read_by(source) in topics_written(written) and _may_lie_behind(column, written):
                yield (
                    f"inputs.{name}.event_time_column: {writer} makes {column} in a query with windows, joins or "
                    f"aggregations. While a task of {writer} is slow its rows are late, unless {column} follows its "
                    "watermark: the end of a window or session, or the younger side of a join. Otherwise give "
                    f"inputs.{name}.watermark_delay the time by which {column} lies behind, such as the length of a "
                    "window"
                )


def _may_lie_behind(column: str, writer: Config) -> bool:
    sql, named = _sql(writer), rf"\s+(as\s+)?`?{re.escape(column)}\b"
    if re.search(rf"window\.start{named}", sql, re.IGNORECASE):
        return True
    sources = [*(writer.get("inputs") or {}).values(), *(writer.get("streams") or {}).values()]
    is_passed_on = column.lower() in {str(source.get("event_time_column")).lower() for source in sources}
    is_end = re.search(rf"(window\.end|\bwindow_time\s*\(\s*\w+\s*\)){named}", sql, re.IGNORECASE)
    return bool(_STATEFUL.search(sql)) and not is_passed_on and not is_end


def _sql(config: Config) -> str:
    return (config.get("query") or {}).get("sql") or ""
