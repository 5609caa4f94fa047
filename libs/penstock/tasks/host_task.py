"""Host tasks: work that Spark hosts do for the control plane, besides running the tasks of jobs. Pure.

To add a kind: write its request (a `HostRequest`), add it to `Request` and `POLICIES` here, and add its function to
`penstock.spark.host.handlers.HANDLERS`. `services/state_syncer/host_tasks/README.md` has all steps.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from penstock.config.declare import Carried, Counted
from penstock.tasks.analysis import AnalysisRequest
from penstock.tasks.profile import ProfileRequest
from penstock.tasks.redistribution import CopyRequest, GenerationRemoval, RedistributionRequest, SealRequest
from penstock.tasks.savepoint import ImportRequest, SavepointRemoval, SavepointRequest
from penstock.tasks.sinks import SinkRequest

Request = Annotated[
    CopyRequest
    | RedistributionRequest
    | SealRequest
    | SinkRequest
    | SavepointRequest
    | ImportRequest
    | SavepointRemoval
    | GenerationRemoval
    | AnalysisRequest
    | ProfileRequest,
    Field(discriminator="kind"),
]

COPY_STATE = "copy_state"
REDISTRIBUTE = "redistribute"
SEAL = "seal"
INITIALIZE_SINK = "initialize_sink"
TAKE_SAVEPOINT = "take_savepoint"
IMPORT_CHECKPOINT = "import_checkpoint"
REMOVE_SAVEPOINT = "remove_savepoint"
REMOVE_GENERATION = "remove_generation"
ANALYSE = "analyse"
PROFILE = "profile"


class HostTask(Carried):
    """A host task: the request that a State Syncer, leading under `leader_epoch`, sends to a container."""

    leader_epoch: Counted
    request: Request

    @property
    def key(self) -> str:
        """Names the task: a container does the task of one key once."""
        return key_of(self.request.kind, self.request.job, self.request.key_number)


def key_of(kind: str, job: str, number: int) -> str:
    """The key of a host task. Names of jobs have no colon."""
    return f"{kind}:{job}:{number}"


@dataclass(frozen=True, slots=True)
class Policy:
    """How the tasks of one kind are carried out.

    `attempts`: a failure ends the task from this attempt on. `losses`: so does a lost container (None: never, as the
    rest of a plan, or the removal of files, cannot be left out). `backs_off`: a pause follows each failure, and grows;
    without it another attempt may begin at once. The steps of plans back off with their job instead. `at_once`: the
    most tasks of this kind under way in a cell (None: the part that asks limits them). `once`: a number is used for
    one attempt only, so a cancelled task never begins. `own_host`: a large state gets a host without tasks.
    `spare_memory`: such a host only starts in memory that the container's other hosts leave, as the work can be left
    out.
    `own_room`: on a host these tasks do not wait for room that other kinds take. `longest_seconds`: an attempt that
    has not ended after this time counts as lost. `unasked_seconds`: a container gives up what nobody has asked about
    for so long; None where specs or the fence end what nobody wants, should the container never be told.
    """

    attempts: int | None = None
    losses: int | None = None
    backs_off: bool = False
    at_once: int | None = None
    once: bool = False
    own_host: bool = False
    spare_memory: bool = False
    own_room: bool = False
    longest_seconds: float = 3600.0
    unasked_seconds: float | None = None


POLICIES: Mapping[str, Policy] = {
    # A plan goes on without it, and the job's tasks run beside it.
    COPY_STATE: Policy(attempts=1, losses=1, once=True, own_host=True, spare_memory=True, unasked_seconds=600.0),
    REDISTRIBUTE: Policy(attempts=1, losses=3, once=True, own_host=True),
    SEAL: Policy(own_room=True, longest_seconds=300.0),
    INITIALIZE_SINK: Policy(attempts=1, losses=1, longest_seconds=300.0),
    TAKE_SAVEPOINT: Policy(attempts=5, losses=5, at_once=20, own_host=True),
    # What is wrong with the checkpoint of an application stays so.
    IMPORT_CHECKPOINT: Policy(attempts=1, losses=3, at_once=20),
    REMOVE_SAVEPOINT: Policy(backs_off=True, at_once=20),
    REMOVE_GENERATION: Policy(backs_off=True),
    # The Job Service asks for it, and waits only for a short time.
    ANALYSE: Policy(attempts=1, losses=1, own_room=True, longest_seconds=60.0),
    # It takes a core of its container while it runs.
    PROFILE: Policy(attempts=2, losses=2, at_once=5, own_room=True, longest_seconds=1200.0),
}
