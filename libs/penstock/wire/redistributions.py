"""What the State Syncer asks of a Task Manager.

Task Manager (7100+): PUT /v1/redistributions/{job}/{generation}       (RedistributionRequest -> RedistributionAnswer)
                      PUT /v1/redistributions/{job}/{generation}/seal  (SealRequest -> RedistributionAnswer)
                      PUT /v1/redistributions/{job}/{generation}/removal  (GenerationRemoval -> RedistributionAnswer)
                      PUT /v1/savepoints/{job}/{number}                (SavepointRequest -> RedistributionAnswer)
                      PUT /v1/savepoints/{job}/{number}/removal        (SavepointRemoval -> RedistributionAnswer)
                      PUT /v1/sinks/{job}/{revision}                   (SinkRequest -> RedistributionAnswer)

`generation` is that of the request: the target's, the sealed or removed one's; `number` that of the savepoint;
`revision` that of the write. The first call begins the work, each further one tells how far it is. What is done is told
again; what failed is told once, and asked again it is tried again.
"""

from __future__ import annotations

from enum import StrEnum

from penstock.config.model import Model
from penstock.tasks.redistribution import RedistributionReport
from penstock.tasks.savepoint import SavepointReport

MOST_WAIT_SECONDS = 5.0
LOST = "lost"


class WorkState(StrEnum):
    """How far the work is."""

    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"


class RedistributionAnswer(Model):
    """`report` is that of a redistribution that is done, `savepoint` that of a savepoint that was taken, `error` and
    `error_kind` are those of a failure.

    `error_kind`: `retryable`, `broken` when only another request can help, `lost` when the host died at the work.
    """

    state: WorkState
    report: RedistributionReport | None = None
    savepoint: SavepointReport | None = None
    error: str | None = None
    error_kind: str | None = None
