"""What a process of queries is told to do, as a JSON file."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

OWN, SPARKS = "penstock-kafka", "kafka"


@dataclass(frozen=True)
class QueryPlan:
    """A query that copies `source` to the topic `name`; `columns` are SQL expressions that make key and value.

    `format` is the sink's, and the source's too: the form per partition needs one that repeats its partitions in order.
    """

    name: str
    format: str
    source: str
    checkpoint: str
    rows_per_batch: int
    columns: tuple[str, ...] = ("key", "value")
    options: dict[str, str] = field(default_factory=dict)
    restarts: int = 0


@dataclass(frozen=True)
class Plan:
    """A process: a Spark master with settings, a broker, and queries that run side by side."""

    master: str
    settings: dict[str, str]
    bootstrap: str
    queries: tuple[QueryPlan, ...]


def write_plan(path: Path, plan: Plan) -> None:
    """As JSON."""
    path.write_text(json.dumps(asdict(plan)))


def read_plan(path: Path) -> Plan:
    """What `write_plan` wrote."""
    fields = json.loads(path.read_text())
    queries = (QueryPlan(**{**query, "columns": tuple(query["columns"])}) for query in fields.pop("queries"))
    return Plan(**fields, queries=tuple(queries))
