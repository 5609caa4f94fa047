"""Seals a generation: an entry that Spark cannot read takes the place of the next batch in each offsets log."""

from __future__ import annotations

from collections.abc import Iterator

from py4j.protocol import Py4JJavaError

from penstock.config.model import KafkaOutput
from penstock.config.topics import topic_and_cluster
from penstock.control.errors import Unavailable
from penstock.control.logs import logger
from penstock.kafka.access import CLUSTERS, Kafka
from penstock.spark.checkpoint import METADATA, last_offset, new_id
from penstock.spark.failures import failure_of
from penstock.spark.files import Files
from penstock.spark.hadoop import CheckpointWriter
from penstock.spark.producers import marked_topics, series_outputs
from penstock.spark.sinks.kafka import end_marks, seal_series, transactional_id_prefix
from penstock.spark.task import Runtime
from penstock.spark.topics import described
from penstock.tasks.redistribution import Layout, SealRequest

log = logger(__name__)

# Spark's error quotes this entry, and the word FENCED makes the failure `fenced` (`penstock.spark.failures`).
SEAL = b"FENCED: this generation was sealed: its job runs in a later one"


def seal(runtime: Runtime, request: SealRequest) -> None:
    """Ends all commits of the generation, to its checkpoints and to all exactly-once Kafka outputs.

    A task that still runs is fenced, and a task that is started again reads the seal and fails. Safe to repeat. Raises
    Unavailable when Kafka does not answer.
    """
    layout = request.layout
    for index in range(len(layout.ranges)):
        _seal_checkpoint(runtime, request, index)
    for side, output in _sealed_outputs(runtime, layout):
        _seal_output(runtime, request, side, output)
    _leave_topics(runtime, request)
    log.info("generation sealed", job=request.job, generation=layout.generation)


def require_sealable(runtime: Runtime, layout: Layout) -> None:
    """Raises Unavailable when the Kafka of an exactly-once output does not answer: the generation could not be sealed,
    and a job whose seal has begun cannot go back to it. Asked while the job runs, and again once it is stopped."""
    for _, output in _sealed_outputs(runtime, layout):
        kafka = runtime.settings.cluster(output.cluster)
        try:
            described(kafka, [output.topic])
        except Unavailable as error:
            raise Unavailable(_waits_for(kafka, layout, error.detail)) from error


def is_sealed(checkpoint: str, files: Files) -> bool:
    """Whether the newest entry of the offsets log is a seal."""
    newest = last_offset(checkpoint, files)
    return newest is not None and files.read(f"{checkpoint}/offsets/{newest}").startswith(SEAL)


def _sealed_outputs(runtime: Runtime, layout: Layout) -> Iterator[tuple[str | None, KafkaOutput]]:
    """The outputs whose transactions end with the generation, with the names of side outputs. Left out with a warning
    are those on clusters that are gone for good, which ended them."""
    for side, output in series_outputs(layout.config):
        if output.cluster in runtime.settings.gone_clusters:
            log.warning("kafka cluster is gone by the settings: nothing to end there", cluster=output.cluster)
        else:
            yield side, output


def _seal_output(runtime: Runtime, request: SealRequest, side: str | None, output: KafkaOutput) -> None:
    layout, kafka = request.layout, runtime.settings.cluster(output.cluster)
    try:
        for index in range(len(layout.ranges)):
            seal_series(runtime.spark, kafka, transactional_id_prefix(request.job, index, layout.generation, side))
    except Py4JJavaError as error:
        raise Unavailable(_waits_for(kafka, layout, failure_of(error).error)) from error


def _leave_topics(runtime: Runtime, request: SealRequest) -> None:
    """The last mark of the job for each topic that it writes no more. None of its rows can come there: it is sealed."""
    if request.target is None:
        return
    kept = marked_topics(request.target)
    for topic in marked_topics(request.layout.config):
        name, cluster = topic_and_cluster(topic)
        if topic not in kept and cluster not in runtime.settings.gone_clusters:
            end_marks(runtime.settings.cluster(cluster), name, request.job, request.layout.generation)


def _waits_for(kafka: Kafka, layout: Layout, why: str) -> str:
    told = f"generation {layout.generation} is to end its transactions on the Kafka {kafka}: {why}"
    if kafka.cluster is None:
        return told
    return f"{told}. If this cluster will never be back, set {kafka.cluster}.gone to true in {CLUSTERS}"


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
