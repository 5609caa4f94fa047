"""What a savepoint means for the configuration of the job that is to go on from it. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from penstock.config.classify import classify
from penstock.config.model import JobConfig
from penstock.config.paths import is_below, outside
from penstock.config.problems import refusal
from penstock.config.tree import dotted
from penstock.config.validate import read_merged
from penstock.control.errors import Conflict, InvalidConfig
from penstock.tasks.rollout import code_changes, good_values
from services.job_service.flows import places_of_repeats, places_of_rows
from services.job_service.repeats import Left, Repeat, Why, sources
from services.job_service.writes import forbidden_changes

FIRST_GENERATION = 1
"""That the checkpoint of another application counts as."""


def require_compatible(saved: Mapping[str, Any], after: JobConfig) -> None:
    """A savepoint of configuration `saved` can become the checkpoints of `after`. Raises InvalidConfig."""
    changes = forbidden_changes(saved, after)
    if changes:
        raise InvalidConfig(
            f"{changes[0].field} differs from the savepoint, and its state does not fit: first set it as there",
            field=changes[0].field,
            rule="as_in_savepoint",
            errors=[{"field": change.field, "rule": "as_in_savepoint"} for change in changes],
        )


def written_again(
    saved: Mapping[str, Any], after: Mapping[str, Any], since: Iterable[Left], saved_job: str
) -> list[Repeat]:
    """Where the rows since a savepoint of configuration `saved` (empty: nobody has written with it) are, and a job of
    `after` writes them again. `since`: what the two jobs have written at places of it since then."""
    written = places_of_rows(saved) if saved else frozenset()
    places = (written | {left.place for left in since}) & places_of_repeats(after)
    read = tuple(sorted(set(sources(after))))
    return [Repeat(place, saved_job, read, Why.SAVED) for place in sorted(places)]


def written_since(left: Left, jobs: Collection[str], at: datetime | None) -> bool:
    """Whether one of these jobs has written there after `at` (None: ever), or may have."""
    return left.job in jobs and (left.makes is not None or at is None or left.left_at is None or left.left_at >= at)


def require_below(checkpoint: str, roots: Sequence[str]) -> None:
    """Raises InvalidConfig unless the checkpoint of another application lies where jobs may read."""
    if not is_below(checkpoint, roots):
        raise refusal([outside("checkpoint", checkpoint, roots)])


def imported_config(merged: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration of a job as if one task had run it, which is what another application's checkpoint is of.

    Raises InvalidConfig when the layers of the job merge to no valid one.
    """
    read_merged(merged)
    return {**{name: value for name, value in merged.items() if name != "key_group_bounds"}, "task_count": 1}


def code_of(saved: Mapping[str, Any], present: JobConfig) -> dict[str, Any]:
    """The leaves of package and query that differ, as they were, as a patch of a layer.

    Raises Conflict for one that was absent: a layer above cannot take it away.
    """
    leaves = code_changes(classify(saved, present))
    for leaf in leaves:
        if leaf.old is None:
            field = dotted(leaf.path)
            raise Conflict(
                f"{field} is not set in the savepoint: remove it from the layer that sets it, then restore",
                field=field,
                rule="present_in_savepoint",
            )
    return good_values(leaves)
