"""Creates the output of a job before its tasks start, with the code that a task runs at its start."""

from __future__ import annotations

from penstock.config.model import FilesOutput
from penstock.control.logs import logger
from penstock.spark.inputs.checks import TOPIC_EXISTS, check_inputs, require_no_problem
from penstock.spark.sinks import writer
from penstock.spark.sinks.files import claim_output
from penstock.spark.task import Runtime, make_frame
from penstock.tasks.sinks import SinkRequest
from penstock.tasks.spec import TaskSpec, key_group_ranges

log = logger(__name__)


def initialize(runtime: Runtime, request: SinkRequest) -> None:
    """Checks the inputs, builds the query of the first task and creates the output for its rows. Starts nothing. Safe
    to repeat. A topic to read may be missing: another job may make it.

    Raises BrokenTask when an input, query or output cannot work as configured, Unavailable when a server does not
    answer.
    """
    config = request.config
    found = check_inputs(config, runtime.settings.kafka_bootstrap, sample=True)
    require_no_problem(found, ignored=[TOPIC_EXISTS])
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
    task_frame = make_frame(runtime, spec, checkpoint="", token="")
    writer(task_frame.frame, spec, runtime.settings)
    if isinstance(config.output, FilesOutput):
        root, session = runtime.settings.checkpoint_root, task_frame.frame.sparkSession
        claim_output(session, root, request.job, config.output, request.first_generation)
    log.info("output initialized", job=request.job, revision=request.revision, type=config.output.type)
