"""What a query is told before a rescale, whether it has finished its last batch, and how far it is then. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.model.reports import TaskProgress
from penstock.tasks.spec import TaskSpec

NOT_QUIET: Mapping[str, Any] = {
    **{"quiesced": False, "level_ms": None, "watermark_ms": None, "caught_up": False},
    "level_records": None,
}


def order_of(spec: TaskSpec) -> tuple[int, int]:
    """For `QueryWatch.quiesce`: the level in milliseconds, below 0 without one, and the longest interval between two
    triggers in milliseconds."""
    level_ms = -1 if spec.level_ms is None else spec.level_ms
    return level_ms, round(spec.config.trigger_interval_seconds * 1000)


def with_quiet(
    progress: TaskProgress | None,
    spec: TaskSpec,
    quiet: Mapping[str, Any] | None,
    *,
    says_watermark: bool,
    records: int | None = None,
) -> TaskProgress | None:
    """The progress with what `QueryWatch.poll` said of a quiet task; `quiet` None: it is not. `records`: how many it
    reads on until then, None where that is not known.

    What the query said of another order than that of the spec, which it has got since, does not count. The watermark is
    said only where it was asked for, by an order with a level, and where a task can be brought to one.
    """
    told = {**NOT_QUIET, "level_records": records if spec.quiescing and spec.level_ms else None}
    if quiet is not None and spec.quiescing and quiet.get("levelMillis") == spec.level_ms:
        told = {**NOT_QUIET, "quiesced": True, "level_ms": spec.level_ms}
        if says_watermark and spec.level_ms is not None:
            told |= {"watermark_ms": quiet["watermarkMillis"], "caught_up": quiet["caughtUp"]}
    known = progress or TaskProgress()
    return (
        progress
        if all(getattr(known, name) == value for name, value in told.items())
        else known.model_copy(update=told)
    )


def without_quiet(progress: TaskProgress) -> TaskProgress:
    """The progress of a task that has got another order."""
    return progress.model_copy(update=NOT_QUIET)


def is_quiet(progress: TaskProgress | None, spec: TaskSpec) -> bool:
    """Whether a task has said that it is quiet, by the order of the spec."""
    return progress is not None and bool(progress.quiesced) and progress.level_ms == spec.level_ms
