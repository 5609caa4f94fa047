"""The rows of one query to several outputs: `foreachBatch` that writes each batch to one output after the other.

The query runs once for a batch; its rows are kept until all outputs have theirs. Each output knows by itself, from the
id of the query in its checkpoint and the id of the batch, whether it has the batch. So when the task ends between two
of them, the batch is repeated, those that have it skip it, and the others get it.

Side outputs come first, by name, and `output` last: whoever sees a row there finds its parts in the other places.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql.streaming.readwriter import DataStreamWriter

from penstock.config.model import (
    MAIN,
    DeltaOutput,
    FilesOutput,
    FunctionOutput,
    JobConfig,
    KafkaOutput,
    PostgresOutput,
    SideOutput,
    side_name,
)
from penstock.config.outputs import about_output, each_output
from penstock.control.errors import BrokenTask, Unavailable
from penstock.spark.settings import SparkSettings
from penstock.spark.sinks import delta, files, foreach_batch, kafka, postgres
from penstock.spark.sinks.context import kept, require_distinct_columns
from penstock.spark.sinks.parts import checked_part, part_of, side_of
from penstock.tasks.spec import TaskSpec

BatchWriter = Callable[[DataFrame, int], None]


class Part(NamedTuple):
    """An output of the job. `field`: where the configuration has it; `side`: which rows it gets, None for `output`."""

    field: str
    side: SideOutput | None
    write: BatchWriter


def writer(frame: DataFrame, spec: TaskSpec, settings: SparkSettings) -> DataStreamWriter:
    """Writes `frame` to all outputs of the job, made where they are missing. Raises as their writers do; an error names
    the field of the output."""
    require_distinct_columns(frame)
    parts = [_part(frame, spec, settings, field, alone) for field, alone in each_output(spec.config)]
    several = Several(sorted(parts, key=lambda part: (part.field == MAIN, part.field)))
    return frame.writeStream.outputMode(spec.config.output_mode).foreachBatch(several.write)


@contextmanager
def naming(field: str) -> Iterator[None]:
    """An error of a sink, which knows one output only, names the field of this output."""
    try:
        yield
    except (BrokenTask, Unavailable) as error:
        told = about_output(error.detail, field)
        if told == error.detail:
            raise
        raise type(error)(told, **error.extra) from error
    except Exception as error:
        error.add_note(f"in {field}")
        raise


class Several:
    """Writes the batches of one task to all its outputs."""

    def __init__(self, parts: list[Part]) -> None:
        self._parts = parts

    def write(self, frame: DataFrame, batch_id: int) -> None:
        """Writes a micro-batch to each output that does not have it.

        Raises what an output raises, which ends the query; its next start repeats the batch. All rows are computed,
        whatever the outputs do with them, or the next batch would not find its state.
        """
        with kept(frame) as rows:
            for part in self._parts:
                with naming(part.field):
                    part.write(part_of(rows, part.side), batch_id)
            rows.count()


def _part(frame: DataFrame, spec: TaskSpec, settings: SparkSettings, field: str, alone: JobConfig) -> Part:
    rows = checked_part(frame, spec.config, field)
    with naming(field):
        write = _batch_writer(rows, spec.model_copy(update={"config": alone}), settings, side_name(field))
    return Part(field, side_of(spec.config, field), write)


def _batch_writer(frame: DataFrame, spec: TaskSpec, settings: SparkSettings, side: str | None) -> BatchWriter:
    match spec.config.output:
        case KafkaOutput() as output:
            return kafka.batch_writer(frame, spec, output, settings.cluster(output.cluster), side)
        case DeltaOutput() as output:
            return delta.batch_writer(frame, spec, output)
        case PostgresOutput() as output:
            return postgres.batch_writer(frame, spec, output, settings.connections, side)
        case FunctionOutput() as output:
            return foreach_batch.batch_writer(frame, spec, output, settings, side)
        case FilesOutput() as output:
            return files.batch_writer(frame, spec, output)
