"""Whether a task has finished its last batch before a rescale, and how far it is then. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.model.reports import TaskProgress
from penstock.tasks.spec import TaskSpec

NOT_QUIET: Mapping[str, Any] = {"quiesced": False, "level_ms": None, "watermark_ms": None, "caught_up": False}


def with_quiet(progress: TaskProgress | None, spec: TaskSpec, quiet: Mapping[str, Any] | None) -> TaskProgress | None:
    """The progress with what `QueryWatch.poll` said of a quiet task; `quiet` None: it is not.

    What the query said of another order than that of the spec, which it has got since, does not count.
    """
    told = NOT_QUIET
    if quiet is not None and spec.quiescing and quiet.get("levelMillis") == spec.level_ms:
        watermark_ms, caught_up = quiet["watermarkMillis"], quiet["caughtUp"]
        told = {"quiesced": True, "level_ms": spec.level_ms, "watermark_ms": watermark_ms, "caught_up": caught_up}
    known = progress or TaskProgress()
    return (
        progress
        if all(getattr(known, name) == value for name, value in told.items())
        else known.model_copy(update=told)
    )


def without_quiet(progress: TaskProgress) -> TaskProgress:
    """The progress of a task that has got another order."""
    return progress.model_copy(update=NOT_QUIET)
