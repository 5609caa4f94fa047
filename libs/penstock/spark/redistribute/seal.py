"""Seals a generation: an entry that Spark cannot read takes the place of the next batch in each offsets log."""

from __future__ import annotations

from penstock.control.logs import logger
from penstock.spark.checkpoint import METADATA, last_offset, new_id
from penstock.spark.files import Files
from penstock.spark.hadoop import CheckpointWriter
from penstock.spark.producers import series_outputs
from penstock.spark.sinks.kafka import seal_series, transactional_id_prefix
from penstock.spark.task import Runtime
from penstock.tasks.redistribution import SealRequest

log = logger(__name__)

# Spark's error quotes this entry, and the word FENCED makes the failure `fenced` (`penstock.spark.failures`).
SEAL = b"FENCED: this generation was sealed: its job runs in a later one"


def seal(runtime: Runtime, request: SealRequest) -> None:
    """Ends all commits of the generation, to its checkpoints and to all exactly-once Kafka outputs.

    A task that still runs is fenced, and a task that is started again reads the seal and fails. Safe to repeat. Raises
    Py4JJavaError when Kafka does not answer.
    """
    layout = request.layout
    for index in range(len(layout.ranges)):
        _seal_checkpoint(runtime, request, index)
    for side, output in series_outputs(layout.config):
        kafka = runtime.settings.cluster(output.cluster)
        for index in range(len(layout.ranges)):
            prefix = transactional_id_prefix(request.job, index, layout.generation, side)
            seal_series(runtime.spark, kafka, prefix)
    log.info("generation sealed", job=request.job, generation=layout.generation)


def is_sealed(checkpoint: str, files: Files) -> bool:
    """Whether the newest entry of the offsets log is a seal."""
    newest = last_offset(checkpoint, files)
    return newest is not None and files.read(f"{checkpoint}/offsets/{newest}").startswith(SEAL)


def _seal_checkpoint(runtime: Runtime, request: SealRequest, index: int) -> None:
    checkpoint = runtime.checkpoint(request.job, request.layout.generation, index)
    token = runtime.claim(checkpoint, epoch=None)
    if is_sealed(checkpoint, runtime.files):
        return
    newest = last_offset(checkpoint, runtime.files)
    entry = 0 if newest is None else newest + 1
    writer = CheckpointWriter(runtime.session(request.layout.config, checkpoint, token), checkpoint)
    if METADATA not in runtime.files.names(checkpoint):
        # The task was never started. Without a query id Spark would report that instead of quoting the seal.
        writer.write(METADATA, new_id())
    writer.write(f"offsets/{entry}", SEAL)
