"""Checks a job and creates its output before its tasks start, with the code that a task runs at its start."""

from __future__ import annotations

from penstock.config.model import FilesOutput
from penstock.control.logs import logger
from penstock.spark.analysis.analyse import analyse
from penstock.spark.inputs.checks import require_no_problem
from penstock.spark.sinks import writer
from penstock.spark.sinks.files import claim_output
from penstock.spark.task import Runtime, make_frame
from penstock.tasks.analysis import MAY_COME_LATER, OFFSET_KEPT
from penstock.tasks.sinks import SinkRequest
from penstock.tasks.spec import TaskSpec, key_group_ranges

log = logger(__name__)


def initialize(runtime: Runtime, request: SinkRequest) -> None:
    """Analyses the job, builds the query of the first task and creates the output for its rows. Starts nothing. Safe to
    repeat.

    Raises BrokenTask when the job cannot work as configured, Unavailable when a server does not answer. An input topic
    that another job makes later is waited for by the tasks.
    """
    config = request.config
    found = analyse(runtime.spark, runtime.settings, request.job, config, decodes_sample=False)
    require_no_problem(found.problems, ignored=MAY_COME_LATER | {OFFSET_KEPT})
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
