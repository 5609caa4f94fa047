"""What sinks share: the rules that they check before a query starts, columns, and JSON text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from penstock.config.model import JobConfig
from penstock.control.errors import BrokenTask
from penstock.spark.files import files_of

# Of timestamps in JSON and CSV. Spark's own defaults cut to milliseconds.
TIMESTAMP_OPTIONS = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
JSON_OPTIONS = {**TIMESTAMP_OPTIONS, "ignoreNullFields": "false"}

_QUERY_ID_PROPERTY = "sql.streaming.queryId"


def json_text(value: Column) -> Column:
    """`value` (struct, map, array or variant) as JSON: nulls kept, timestamps in microseconds with their offset."""
    return F.to_json(value, JSON_OPTIONS)


def quoted(name: str) -> str:
    """A name as Spark's SQL has it, whatever characters are in it."""
    return "`" + name.replace("`", "``") + "`"


def column(name: str) -> Column:
    """The column called exactly `name`."""
    return F.col(quoted(name))


def row_of(frame: DataFrame) -> Column:
    """The columns of a frame as one struct, also in a frame that has more of them."""
    return F.struct(*map(column, frame.columns))


def query_id_of(frame: DataFrame) -> str:
    """The id in the checkpoint's metadata of the query that a foreachBatch frame belongs to.

    Raises BrokenTask when the frame is of no batch of this thread.
    """
    query_id = frame.sparkSession.sparkContext.getLocalProperty(_QUERY_ID_PROPERTY)
    if query_id is None:
        raise BrokenTask("the query of the batch is unknown: it was not run by foreachBatch of this thread")
    return query_id


def require_columns(frame: DataFrame, names: Iterable[str], field: str) -> None:
    """Raises BrokenTask when a column that the configuration's `field` names is not in the query's result."""
    missing = [name for name in names if name not in frame.columns]
    if missing:
        raise BrokenTask(
            f"{field}: the rows have no column {', '.join(missing)}; they have {', '.join(frame.columns)}",
            rule="known_column",
        )


def require_distinct_columns(frame: DataFrame, field: str = "query") -> None:
    """Raises BrokenTask when two columns of the query's result have the same name, upper or lower case. `field` gives
    them."""
    counts = Counter(name.lower() for name in frame.columns)
    repeated = sorted(name for name, count in counts.items() if count > 1)
    if repeated:
        raise BrokenTask(
            f"{field}: the column {', '.join(repeated)} is there more than once; give each its own alias",
            rule="distinct_columns",
        )


def require_output_mode(config: JobConfig, allowed: tuple[str, ...]) -> None:
    """Raises BrokenTask when the sink cannot take the job's output mode."""
    if config.output_mode not in allowed:
        raise BrokenTask(
            f"output_mode: the {config.output.type} sink takes {' or '.join(allowed)}, not {config.output_mode}"
        )


def require_writable(session: SparkSession, path: str) -> None:
    """Raises BrokenTask when files cannot be made below `output.path`; nothing is made."""
    why = files_of(path, session).why_not_writable(path)
    if why is not None:
        raise BrokenTask(f"output.path: nothing can be written below {path}: {why}", rule="path_writable")


@contextmanager
def kept(frame: DataFrame) -> Iterator[DataFrame]:
    """The frame, run once: its rows stay in the executors' memory or on their disks for the body. Where they are kept
    already, they stay so."""
    if frame.is_cached:
        yield frame
        return
    rows = frame.persist()
    try:
        yield rows
    finally:
        rows.unpersist()
