"""Creates the output of a job before its tasks start, with the code that a task runs at its start."""

from __future__ import annotations

from penstock.config.model import FilesOutput
from penstock.control.logs import logger
from penstock.spark.sinks import writer
from penstock.spark.sinks.files import claim_output
from penstock.spark.task import Runtime, make_frame
from penstock.tasks.sinks import SinkRequest
from penstock.tasks.spec import TaskSpec, key_group_ranges

log = logger(__name__)


def initialize(runtime: Runtime, request: SinkRequest) -> None:
    """Builds the query of the first task and creates the output for its rows. Starts nothing. Safe to repeat.

    Raises BrokenTask when query or output cannot work as configured, Unavailable when a server does not answer.
    """
    config = request.config
    spec = TaskSpec(
        job=request.job,
        index=0,
        revision=request.revision,
        generation=0,
        restarts=0,
        key_groups=key_group_ranges(config)[0],
        config=config,
    )
    # No checkpoint is opened, so the session needs neither a FENCE file nor a token.
    frame = make_frame(runtime, spec, checkpoint="", token="")
    writer(frame, spec, runtime.settings)
    if isinstance(config.output, FilesOutput):
        root = runtime.settings.checkpoint_root
        claim_output(frame.sparkSession, root, request.job, config.output, request.first_generation)
    log.info("output initialized", job=request.job, revision=request.revision, type=config.output.type)
