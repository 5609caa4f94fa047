"""Reads a column of strings from Spark into a file, which is in memory while small and on disk when large.

`DataFrame.toArrow` keeps a whole batch in Python's memory, and `toLocalIterator` runs one job for each partition. Here
one job runs and its results are written at once. The reader must never wait for a database, since Spark's scheduler
passes on the results of all queries of the host on one thread.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import SpooledTemporaryFile

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql.pandas.serializers import ArrowCollectSerializer
from pyspark.util import _load_from_socket

MEMORY_BYTES = 16 * 2**20


@contextmanager
def spooled(frame: DataFrame, line: Column) -> Iterator[SpooledTemporaryFile[bytes]]:
    """`line` of every row of `frame`, in no particular order, as UTF-8 in a file read from its start.

    Runs the frame once, in one Spark job. Raises what Spark raises.
    """
    with SpooledTemporaryFile(max_size=MEMORY_BYTES) as spool:
        for batch in _arrow_batches(frame.select(line.alias("line"))):
            spool.write(_text_of(batch.column(0)))
        spool.seek(0)
        yield spool


def _arrow_batches(frame: DataFrame) -> Iterator[pa.RecordBatch]:
    """`DataFrame._collect_as_arrow` of pyspark 4.2 without its list: batches as partitions finish.

    The stream's last item is the order of the batches, which nobody needs here.
    """
    port, secret, server = frame._jdf.collectAsArrowToPython()
    try:
        with _load_from_socket((port, secret), ArrowCollectSerializer()) as stream:  # type: ignore[no-untyped-call]
            yield from (item for item in stream if isinstance(item, pa.RecordBatch))
    finally:
        server.getResult()


def _text_of(strings: pa.Array) -> memoryview:
    """The bytes of all strings of an Arrow string column without nulls, one after the other, not copied."""
    _, offsets, text = strings.buffers()
    if text is None:
        return memoryview(b"")
    bounds = memoryview(offsets).cast("q" if pa.types.is_large_string(strings.type) else "i")
    return memoryview(text)[bounds[strings.offset] : bounds[strings.offset + len(strings)]]
