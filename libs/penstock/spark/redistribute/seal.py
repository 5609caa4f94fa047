"""The end of a generation: an entry in each offsets log that Spark cannot read, where the next batch would be."""

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

# Spark's complaint about the entry quotes it, and the mark makes the failure `fenced` (`penstock.spark.failures`).
SEAL = "FENCED: this generation was sealed: its job runs in a later one"


def seal(runtime: Runtime, request: SealRequest) -> None:
    """Nothing of the generation commits any more: neither to its checkpoints nor to an exactly-once Kafka output.

    A zombie loses the fence, and whoever starts a task again reads the seal and fails. Safe to repeat. Raises
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
        # Of a task that was never started: without an id Spark would complain of that, and not quote the seal.
        writer.write(METADATA, new_id())
    writer.write(f"offsets/{entry}", SEAL.encode())
