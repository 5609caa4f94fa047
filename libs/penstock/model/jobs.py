"""Jobs, their layers and changes of them as plain data. Pure, so that decisions may use it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Literal, get_args

from penstock.config.merge import LayerConfig
from penstock.config.model import JobConfig
from penstock.model.states import JobState as JobState

Role = Literal["reader", "provisioner", "scaler", "oncall", "admin"]
ROLES: tuple[Role, ...] = get_args(Role)
"""What a token may act as."""


class Action(StrEnum):
    """What a row of the history did."""

    CREATE = "create"
    PUT = "put"
    PATCH = "patch"
    DROP = "drop"
    EXPIRE = "expire"
    REVERT = "revert"
    DELETE = "delete"
    FORGET = "forget"
    RESTART = "restart"
    RELEASE = "release"
    RESTORE = "restore"
    CANCEL_RESTORE = "cancel_restore"
    PAUSE_ROLLOUT = "pause_rollout"
    RESUME_ROLLOUT = "resume_rollout"
    ABORT_ROLLOUT = "abort_rollout"


SYNC_STATES = tuple(state for state in JobState if state not in (JobState.STOPPED, JobState.RESTORING))
"""The states of `sync_state`. A reader derives the others: `stopped` from the running configuration, `restoring` from
the plan, since the State Syncer handles a restore as a rescale."""


@dataclass(frozen=True, slots=True)
class LayerRow:
    """A layer of the cell. `default_expiry_seconds` None: writes do not expire unless asked to."""

    name: str
    rank: int
    default_expiry_seconds: int | None = None
    documentation: str = ""


@dataclass(frozen=True, slots=True)
class StoredLayer:
    """One layer of one job; `config` None after it was dropped."""

    layer: str
    config: Mapping[str, Any] | None
    version: int
    revision: int
    author: str
    reason: str
    written_at: datetime
    expires_at: datetime | None


@dataclass(frozen=True, slots=True)
class StoredJob:
    """A job with all its layers. `running`: the configuration that it runs; None as long as no commit has asked for
    tasks, so that it can have no checkpoint."""

    name: str
    revision: int
    restarts: int
    deleting: bool
    owner: str
    created_at: datetime
    running: Mapping[str, Any] | None = None
    layers: Mapping[str, StoredLayer] = field(default_factory=dict)

    @property
    def exists(self) -> bool:
        """False for a name that was only claimed, to be created in the same transaction."""
        return self.revision > 0

    def version(self, layer: str) -> int:
        """The layer's version; 0 when it was never written."""
        stored = self.layers.get(layer)
        return 0 if stored is None else stored.version

    def config(self, layer: str) -> Mapping[str, Any] | None:
        """What the layer sets; None when it is absent or dropped."""
        stored = self.layers.get(layer)
        return None if stored is None else stored.config


@dataclass(frozen=True, slots=True)
class Change:
    """One decided write: the job's row after it, and the layer's where one is written.

    `layer` None: only the job's own row changes. `new` None with a layer: the layer is dropped. `config`: the complete
    configuration that all layers then give, `merged` the same as JSON; None without a layer.
    """

    job: str
    action: Action
    author: str
    reason: str
    owner: str
    restarts: int
    deleting: bool = False
    layer: str | None = None
    old: Mapping[str, Any] | None = None
    new: Mapping[str, Any] | None = None
    config: JobConfig | None = None
    merged: Mapping[str, Any] | None = None
    expires_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Committed:
    """A change as it was written. `version` is the layer's new version, None without a layer."""

    change: Change
    revision: int
    version: int | None


def layer_configs(job: StoredJob, layers: Mapping[str, LayerRow]) -> tuple[LayerConfig, ...]:
    """The layers that a job has, ready to be merged."""
    return tuple(
        LayerConfig(
            name=stored.layer,
            rank=layers[stored.layer].rank,
            version=stored.version,
            config=stored.config,
            author=stored.author,
            reason=stored.reason,
            written_at=stored.written_at,
            expires_at=stored.expires_at,
            revision=stored.revision,
        )
        for stored in job.layers.values()
        if stored.config is not None
    )
