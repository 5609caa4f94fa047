"""Makes the output of a job before any of its tasks starts, by the code that a task runs when it starts."""

from __future__ import annotations

from penstock.control.logs import logger
from penstock.spark.sinks import writer
from penstock.spark.task import Runtime, make_frame, sink_context
from penstock.tasks.sinks import SinkRequest
from penstock.tasks.spec import TaskSpec, key_group_ranges

log = logger(__name__)


def initialize(runtime: Runtime, request: SinkRequest) -> None:
    """Builds the query of the first task, and the output for its rows; starts nothing. Safe to repeat.

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
    # No checkpoint is opened, so the session is fenced by nothing: a token that no FENCE file says.
    writer(make_frame(runtime, spec, fence_path="", token=""), spec, sink_context(runtime))
    log.info("output initialized", job=request.job, revision=request.revision, type=config.output.type)
