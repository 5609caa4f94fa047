"""Bounds of key-group ranges: whether they count.

They are made for a number of tasks. When another layer changes `task_count` (the Auto Scaler does) they do not fit, and
that must not refuse its write: they are left out of the merged configuration and count again when the number does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.config.keygroups import bounds_in_force
from penstock.config.model import JobConfig

FIELD = "key_group_bounds"


def with_bounds_in_force(config: JobConfig) -> JobConfig:
    """The configuration without bounds that change nothing: of another number of tasks, or those of even ranges."""
    if config.key_group_bounds is None:
        return config
    key_groups = min(source.key_groups for source in config.inputs.values())
    found = bounds_in_force(key_groups, config.task_count, config.key_group_bounds)
    return config.model_copy(update={FIELD: found})


def why_ignored(merged: Mapping[str, Any]) -> str | None:
    """Why the bounds of merged layers do not count, for people; None when they do, or there are none."""
    bounds, count = merged.get(FIELD), merged.get("task_count", 1)
    if not isinstance(bounds, list) or not isinstance(count, int) or len(bounds) == count - 1:
        return None
    return f"for {len(bounds) + 1} tasks, and the job has {count}: ranges are even"
