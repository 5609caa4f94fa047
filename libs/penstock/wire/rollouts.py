"""Rollouts of packages in the Job Service's API."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field

from penstock.config.model import Model
from penstock.wire.jobs import View

RolloutState = Literal["none", "rolling", "late", "paused", "aborting", "rolling_back", "halted"]


class RolloutWrite(Model):
    """`POST .../rollout/pause`, `.../resume` and `.../abort`."""

    reason: Annotated[str, Field(min_length=1, max_length=2000, description="why; kept in the history")]


class RolloutOrderView(View):
    """What an operator asked of the rollout."""

    action: str
    author: str
    reason: str
    at: datetime


class RolloutView(View):
    """How far the package of a job has gone out. Null where no rollout is recorded.

    `none`: no package goes out. `late`: for too long it has not been known whether upgraded tasks run. No wave begins
    until it is. `paused`: an operator asked for that. `aborting`: an operator asked to go back, which the State Syncer
    has not begun. `rolling_back`: all tasks are to go back to the package before. `halted`: a task was not healthy, and
    no package before is known to have worked in this job. `wave` counts from 1. `upgraded` of `tasks` have the package,
    or get it with their wave. `refused`: why the Job Service does not let the State Syncer write the package before,
    and what to do.
    """

    job: str
    state: RolloutState
    detail: str = ""
    package: str | None = None
    revision: int | None = None
    wave: int | None = None
    waves: int | None = None
    upgraded: int | None = None
    tasks: int | None = None
    begun_at: datetime | None = None
    order: RolloutOrderView | None = None
    refused: str | None = None
