"""The alerts of a placement. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from penstock.model.alerts import AlertKind
from penstock.tasks.selectors import in_words
from services.shard_manager.placement.binding import Unmet
from services.shard_manager.placement.reasons import Unplaceable

KINDS = (AlertKind.UNPLACEABLE, AlertKind.SELECTOR_UNMET)
CELL_SHORT = "cell_short"
_NAMED = 50


class PlacementAlert(NamedTuple):
    """`subject`: a job, or the cause that the shards share. `details` are JSON and name at most 50 shards."""

    kind: AlertKind
    subject: str
    message: str
    details: Mapping[str, Any]


def alerts_of_shards(unplaceable: Iterable[Unplaceable], where: Mapping[int, str]) -> Iterator[PlacementAlert]:
    """One alert for each cause. `where`: containers of shards that run all the same, beyond capacity or draining."""
    by_cause: dict[str, list[Unplaceable]] = {}
    for lack in unplaceable:
        by_cause.setdefault(lack.cause.value, []).append(lack)
    for cause, lacks in sorted(by_cause.items()):
        shards = sorted(lack.shard for lack in lacks)
        homeless = sum(shard not in where for shard in shards)
        reasons = sorted({lack.reason for lack in lacks})
        message = f"{_counted(len(shards), homeless)}: {'; '.join(reasons[:3])}"
        details = {"count": len(shards), "without_owner": homeless, "reasons": reasons[:_NAMED]}
        yield PlacementAlert(AlertKind.UNPLACEABLE, cause, message, {**details, "shards": shards[:_NAMED]})


def _counted(count: int, homeless: int) -> str:
    """What becomes of shards for which no container has room."""
    nowhere = f"{_shards(homeless)} without a container; their tasks do not run" if homeless else ""
    beyond = f"{_shards(count - homeless)} on containers that are full or drain" if count > homeless else ""
    return "; ".join(filter(None, (nowhere, beyond)))


def _shards(count: int) -> str:
    return "1 shard is" if count == 1 else f"{count} shards are"


def alerts_of_shortage(asked: Mapping[str, float]) -> Iterator[PlacementAlert]:
    """One alert when open containers have to take more than they offer. `asked`: the load as a share of capacity."""
    if asked:
        shares = ", ".join(f"{share:.0%} of the usable {dimension}" for dimension, share in sorted(asked.items()))
        message = f"the containers are too small: the load is {shares}"
        yield PlacementAlert(AlertKind.UNPLACEABLE, CELL_SHORT, message, {"asked": dict(asked)})


def alerts_of_jobs(unmet: Iterable[Unmet]) -> Iterator[PlacementAlert]:
    """One alert for each job whose region or labels cannot be given to some of its tasks."""
    by_job: dict[str, list[Unmet]] = {}
    for each in unmet:
        by_job.setdefault(each.job, []).append(each)
    for job, rows in by_job.items():
        shards = sorted({shard for row in rows for shard in row.shards})
        where = f"its tasks in {len(shards)} shards" if shards else "its tasks"
        rules = "; ".join(sorted({row.rule for row in rows}))
        message = f"job {job} asks for {in_words(rows[0].selector)}: {rules}; {where} do not run"
        details = {"selector": rows[0].selector, "rule": rules, "count": len(shards), "shards": shards[:_NAMED]}
        yield PlacementAlert(AlertKind.SELECTOR_UNMET, job, message, details)
