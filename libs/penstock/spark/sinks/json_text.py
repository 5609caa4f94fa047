"""Rows as JSON text, the same wherever a sink writes JSON, and timestamps as text in JSON and CSV."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

# Spark's own defaults cut to milliseconds.
TIMESTAMP_OPTIONS = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
OPTIONS = {**TIMESTAMP_OPTIONS, "ignoreNullFields": "false"}


def json_text(value: Column) -> Column:
    """`value` (struct, map, array or variant) as JSON: nulls kept, timestamps in microseconds with their offset."""
    return F.to_json(value, OPTIONS)
