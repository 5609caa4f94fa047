"""Which field an unknown one may mean: one of this name in another place, one that other systems call so, or one whose
name looks like it. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches

from penstock.config.tree import FIELD_TABLE, ROOT, Group, Path, dotted, find
from penstock.control.texts import LONGEST_COMPARED

_MOST_NAMED = 3
_OTHER_WORDS = {
    "task_count": "tasks num_tasks number_of_tasks parallelism replicas instances workers concurrency",
    "inputs": "source sources topics",
    "inputs.*.value_schema": "schema",
    "tables.*.table_schema": "schema",
    "inputs.*.key_groups": "partitions num_partitions partition_count",
    "inputs.*.event_time_column": "event_time event_time_field timestamp_column time_column",
    "inputs.*.watermark_delay": "watermark delay_threshold allowed_lateness",
    "inputs.*.starting_position": "starting_offsets auto_offset_reset start_from",
    "inputs.*.key_columns": "key keys",
    "output": "sink sinks target destination",
    "output.upsert_columns": "primary_key merge_keys unique_key",
    "output.partition_columns": "partition_by partitioned_by",
    "output.value_format": "serialization",
    "output_mode": "mode",
    "query.sql": "sql statement select",
    "trigger_interval_seconds": "trigger interval processing_time batch_interval",
    "max_records_per_trigger": "max_offsets_per_trigger max_records max_rows_per_trigger",
    "resources.cpu_cores": "cpu cpus cores executor_cores",
    "resources.memory_bytes": "memory mem ram executor_memory",
    "resources.disk_bytes": "disk storage",
    "spark_settings": "conf config spark_conf properties options",
    "desired_state": "state status paused suspended enabled",
    "container_labels": "node_selector affinity",
    "labels": "tags annotations",
}
"""What other systems call a field."""


def meant(name: str) -> list[str]:
    """The fields, at most three, that an unknown dotted name may mean, the likeliest first: of those beside it by the
    name they have there (`inputs.flights.topic`), of the others with `*` for keys that users choose."""
    if len(name) > LONGEST_COMPARED:
        return []
    *above, last = name.split(".")
    beside = _beside(tuple(above))
    found = [row.path for row in FIELD_TABLE if row.path.rpartition(".")[2] == last]
    found = found or list(_by_another_word(last, tuple(above), beside))
    found = found or [dotted((*above, each)) for each in get_close_matches(last, beside, n=_MOST_NAMED)]
    return found[:_MOST_NAMED] or get_close_matches(name, [row.path for row in FIELD_TABLE], n=_MOST_NAMED)


def _beside(above: Path) -> list[str]:
    node = find(above) if above else ROOT
    return list(node.fields) if isinstance(node, Group) else []


def _by_another_word(last: str, above: Path, beside: list[str]) -> Iterator[str]:
    """Where the field is beside the unknown one, that one alone."""
    fields = [field for field, words in _OTHER_WORDS.items() if _plain(last) in map(_plain, words.split())]
    near = [dotted((*above, leaf)) for field in fields if (leaf := field.rpartition(".")[2]) in beside]
    yield from near or fields


def _plain(word: str) -> str:
    """`numTasks`, `num-tasks` and `num_tasks` are one word."""
    return word.lower().replace("_", "").replace("-", "")
