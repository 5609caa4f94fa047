"""Which writes may bring a problem that Spark's analysis finds. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from penstock.config.classify import ARGS, Config, FieldChange, classify
from penstock.config.declare import ChangeKind
from penstock.config.model import JobConfig
from penstock.tasks.sinks import is_in_query

# What no analysis depends on.
_UNRELATED = frozenset(
    {
        "completeness", "container_labels", "desired_state", "isolation", "key_group_bounds", "labels",
        "max_bytes_per_trigger", "max_records_per_trigger", "max_task_count", "owner", "priority", "region",
        "rescale_within_seconds", "resources", "slo", "threads_per_task", "trigger_interval_seconds",
    }
)  # fmt: skip


def names_what_is_analysed(names: Iterable[str]) -> bool:
    """Whether one of these fields, of the first level, is one that an analysis depends on."""
    return not _UNRELATED.issuperset(names)


def may_matter(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    """Whether a change of a layer's content may bring a problem. `must_be_asked` is exact, and costs much more."""
    names = old.keys() | new.keys()
    return any(
        name == ARGS or name not in old or name not in new or old[name] != new[name] for name in names - _UNRELATED
    )


def must_be_asked(before: Config, after: JobConfig) -> bool:
    """Whether a write may bring a problem that an analysis finds.

    The number of tasks counts only where one becomes several. What changes while tasks run, and settings that Spark
    reads only then, bring none.
    """
    for change in classify(before, after).fields:
        if change.path[0] == "task_count":
            if (change.old or 1) <= 1 < change.new:
                return True
        elif change.path[0] not in _UNRELATED and _is_analysed(change):
            return True
    return False


def _is_analysed(change: FieldChange) -> bool:
    """A field without a change kind of its own, such as where to begin, may be one that the analysis looks at."""
    return change.kind is ChangeKind.NONE or is_in_query(change.path, change.kind)
