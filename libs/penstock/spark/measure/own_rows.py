"""Which rows of a batch were the task's own, where tasks read all rows of a stream by key columns. Pure.

Spark counts what is read. How many of the rows are of the task's key groups is not counted: their share of the key
groups stands for it. Over all tasks that gives the rows of the stream.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from penstock.config.model import JobConfig
from penstock.config.stream_names import FIRST_SECTION, is_stream_log, stream_log

Record = Mapping[str, Any]
_RATES = ("inputRowsPerSecond", "processedRowsPerSecond")


def with_own_rows(record: Record, config: JobConfig) -> Record:
    """A query's progress with the rows, and the rates, of the task's own. As it is where all rows are."""
    if not any(stream.key_columns for stream in config.streams.values()):
        return record
    shares = [_share(source, config) for source in record.get("sources") or []]
    if all(share == 1 for share in shares) or not isinstance(record.get("numInputRows"), int):
        return record
    sources = [_with_share(source, share) for source, share in zip(record["sources"], shares, strict=True)]
    read, rows = record["numInputRows"], sum(source.get("numInputRows") or 0 for source in sources)
    whole = rows / read if read else 1.0
    rates = {name: record[name] * whole for name in _RATES if isinstance(record.get(name), int | float)}
    return {**record, **rates, "numInputRows": rows, "sources": sources}


def _with_share(source: Record, share: float) -> Record:
    rows = source.get("numInputRows")
    return {**source, "numInputRows": round(rows * share)} if isinstance(rows, int) else source


def _share(source: Record, config: JobConfig) -> float:
    """Of the key groups, those that have gone on by a section."""
    for name, end in _positions(source.get("endOffset")).items():
        stream = config.streams.get(stream_log(name).stream) if is_stream_log(name) else None
        if stream is not None and stream.key_columns:
            start = _positions(source.get("startOffset")).get(name, {})
            gone_on = [group for group, section in end.items() if section != start.get(group, FIRST_SECTION)]
            return len(gone_on) / stream.key_groups
    return 1.0


def _positions(offset: Any) -> Mapping[str, Mapping[str, int]]:
    """Offsets are JSON, or text of JSON; those of other sources have other forms."""
    parsed = json.loads(offset) if isinstance(offset, str) else offset
    if not isinstance(parsed, Mapping):
        return {}
    return {name: positions for name, positions in parsed.items() if isinstance(positions, Mapping)}
