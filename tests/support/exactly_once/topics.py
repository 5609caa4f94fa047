"""Queries over fresh topics, and the numbered rows that they copy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from penstock.local.topics import create_topics
from tests.support.exactly_once.plan import OWN, SPARKS, QueryPlan
from tests.support.exactly_once.rows import produce_rows
from tests.support.spark.session import unique

PARTITIONS = 4


def make_source(bootstrap: str, rows: int) -> str:
    """A topic with the rows 0..rows-1; row n is in the partition `n mod PARTITIONS`."""
    topic = unique("numbers")
    create_topics(bootstrap, {topic: PARTITIONS})
    produce_rows(bootstrap, topic, rows, PARTITIONS)
    return topic


def make_query(bootstrap: str, folder: Path, source: str, scope: str | None, **more: Any) -> QueryPlan:
    """A query that copies `source` to a fresh topic by the sink in the form `scope`, or by Spark's own sink (None)."""
    name = unique(scope or "sparks")
    create_topics(bootstrap, {name: PARTITIONS})
    options = {} if scope is None else {"transactionScope": scope}
    form = SPARKS if scope is None else OWN
    defaults: dict[str, Any] = {"rows_per_batch": 400, "options": options}
    return QueryPlan(name, form, source, str(folder / name), **{**defaults, **more})
