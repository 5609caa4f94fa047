"""What the State Syncer asks of a Task Manager besides running tasks.

Task Manager (7100+): PUT    /v1/host-tasks/{key}?wait_seconds=  (HostTask -> HostTaskAnswer)
                      DELETE /v1/host-tasks/{key}?leader_epoch=  (-> 204)

The key is `HostTask.key`. The first PUT begins the work, each further one returns its progress. The answer of finished
work is repeated; a failure is reported once, and a PUT after that tries again. DELETE drops work that has not begun
and asks work under way to stop before it claims a checkpoint. Both are refused with 409 when a newer leader was heard.
"""

from __future__ import annotations

from enum import StrEnum

from penstock.config.declare import Carried
from penstock.control.texts import Json, Text

MOST_WAIT_SECONDS = 5.0
LOST = "lost"
BROKEN = "broken"
LEADER_EPOCH = "leader_epoch"
"""The field that a container names when it refuses the call of an older leader."""


class HostTaskState(StrEnum):
    """How far a host task is."""

    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"


class HostTaskAnswer(Carried):
    """`progress` is how far a task is, in words, where its host reports it. `report` is the kind's `Report` as JSON of
    a task that is done; `error` and `error_kind` are those of a failure.

    `error_kind`: `retryable`, `broken` when only another request can help, `lost` when the host died at the work.
    """

    state: HostTaskState
    progress: Text | None = None
    report: Json | None = None
    error: Text | None = None
    error_kind: str | None = None
