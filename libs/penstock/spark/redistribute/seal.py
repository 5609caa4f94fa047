"""Seals a generation: an entry that Spark cannot read takes the place of the next batch in each offsets log."""

from __future__ import annotations

from penstock.config.model import KafkaOutput
from penstock.control.logs import logger
from penstock.spark.checkpoint import CheckpointFiles, last_offset, task_checkpoint
from penstock.spark.fence import FENCE
from penstock.spark.redistribute.files import METADATA, CheckpointWriter, new_id
from penstock.spark.session import task_session
from penstock.spark.sinks.kafka import seal_series, transactional_id_prefix
from penstock.spark.task import Runtime, checkpoint_files, claim_checkpoint
from penstock.tasks.redistribution import SealRequest

log = logger(__name__)

# Spark's error quotes this entry, and the word FENCED makes the failure `fenced` (`penstock.spark.failures`).
SEAL = "FENCED: this generation was sealed: its job runs in a later one"


def seal(runtime: Runtime, request: SealRequest) -> None:
    """Ends all commits of the generation, to its checkpoints and to an exactly-once Kafka output.

    A task that still runs is fenced, and a task that is started again reads the seal and fails. Safe to repeat. Raises
    Py4JJavaError when Kafka does not answer.
    """
    layout = request.layout
    for index in range(len(layout.ranges)):
        _seal_checkpoint(runtime, request, index)
    output = layout.config.output
    if isinstance(output, KafkaOutput) and output.delivery == "exactly_once":
        for index in range(len(layout.ranges)):
            prefix = transactional_id_prefix(request.job, index, layout.generation)
            seal_series(runtime.host.spark, runtime.settings.kafka_bootstrap, prefix)
    log.info("generation sealed", job=request.job, generation=layout.generation)


def is_sealed(checkpoint: str, batch_id: int, files: CheckpointFiles) -> bool:
    """Whether the entry of a batch is a seal."""
    return files.read(f"{checkpoint}/offsets/{batch_id}").startswith(SEAL)


def _seal_checkpoint(runtime: Runtime, request: SealRequest, index: int) -> None:
    settings, layout = runtime.settings, request.layout
    checkpoint = task_checkpoint(settings.checkpoint_root, request.job, layout.generation, index)
    token = claim_checkpoint(runtime, checkpoint, epoch=None)
    files = checkpoint_files(runtime, checkpoint)
    newest = last_offset(checkpoint, files)
    if newest is not None and is_sealed(checkpoint, newest, files):
        return
    session = task_session(
        runtime.host.spark, layout.config, f"{checkpoint}/{FENCE}", token, settings.unlocked_checkpoints
    )
    entry = 0 if newest is None else newest + 1
    writer = CheckpointWriter(session, checkpoint)
    if METADATA not in files.names(checkpoint):
        # The task was never started. Without a query id Spark would report that instead of quoting the seal.
        writer.write(METADATA, new_id())
    writer.write(f"offsets/{entry}", SEAL.encode())
