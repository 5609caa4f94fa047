"""What people should know of a placement. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from penstock.tasks.selectors import in_words
from services.shard_manager.placement.binding import Unmet
from services.shard_manager.placement.reasons import Unplaceable

UNPLACEABLE = "unplaceable"
REGION_UNMET = "region_unmet"
KINDS = (UNPLACEABLE, REGION_UNMET)
CELL_SHORT = "cell_short"
_NAMED = 50


class PlacementAlert(NamedTuple):
    """`subject`: a job, or the cause that all the shards share. `details` are JSON and name some of the shards."""

    kind: str
    subject: str
    message: str
    details: Mapping[str, Any]


def alerts_of_shards(unplaceable: Iterable[Unplaceable], where: Mapping[int, str]) -> Iterator[PlacementAlert]:
    """One a cause. `where`: where shards go all the same, beyond capacity or on a container that drains."""
    by_cause: dict[str, list[Unplaceable]] = {}
    for lack in unplaceable:
        by_cause.setdefault(lack.cause.value, []).append(lack)
    for cause, lacks in sorted(by_cause.items()):
        shards = sorted(lack.shard for lack in lacks)
        homeless = sum(shard not in where for shard in shards)
        reasons = sorted({lack.reason for lack in lacks})
        message = (
            f"{len(shards)} shards have no place ({'; '.join(reasons[:3])}): {homeless} run nowhere, "
            f"{len(shards) - homeless} where there is no room for them"
        )
        details = {"count": len(shards), "without_owner": homeless, "reasons": reasons[:_NAMED]}
        yield PlacementAlert(UNPLACEABLE, cause, message, {**details, "shards": shards[:_NAMED]})


def alerts_of_shortage(asked: Mapping[str, float]) -> Iterator[PlacementAlert]:
    """One, when open containers offer less than they have to take. `asked`: shares of what they offer."""
    if asked:
        shares = ", ".join(f"{share:.0%} of {dimension}" for dimension, share in sorted(asked.items()))
        message = f"the cell is too small: open containers have to take {shares} that they offer, headroom aside"
        yield PlacementAlert(UNPLACEABLE, CELL_SHORT, message, {"asked": dict(asked)})


def alerts_of_jobs(unmet: Iterable[Unmet]) -> Iterator[PlacementAlert]:
    """One a job that asks for a region or labels in vain."""
    by_job: dict[str, list[Unmet]] = {}
    for each in unmet:
        by_job.setdefault(each.job, []).append(each)
    for job, rows in by_job.items():
        shards = sorted({shard for row in rows for shard in row.shards})
        where = f"its tasks in {len(shards)} shards" if shards else "its tasks"
        rules = "; ".join(sorted({row.rule for row in rows}))
        message = f"job {job} asks for {in_words(rows[0].selector)}: {rules}; {where} do not run"
        details = {"selector": rows[0].selector, "rule": rules, "count": len(shards), "shards": shards[:_NAMED]}
        yield PlacementAlert(REGION_UNMET, job, message, details)
