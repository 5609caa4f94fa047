"""Columns of PySpark, for classes of Java that take and give them."""

from __future__ import annotations

from typing import Any

from pyspark.sql import Column


def java_of(column: Column) -> Any:
    """The Java column behind a column; `pyspark.sql.classic.column.Column` is the way back."""
    found: Any = column
    return found._jc
