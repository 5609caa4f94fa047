"""Whether any container may take the shard of a task that is to move: by the rule of placement, and by what the store
knows. Pure.

Only the tasks of the job itself count for the size of the shard: what other jobs have in it makes it no smaller. So a
refusal is certain, as far as the store is, and what is not refused may still stay where it is.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from penstock.control.errors import Conflict
from penstock.tasks.dimensions import DIMENSIONS, Amounts
from penstock.tasks.loads import JobTasks, TaskLoad, task_loads
from penstock.tasks.ownership import Member
from penstock.tasks.selectors import selector_of
from penstock.tasks.taking import constraint_of, obstacle

MOST_NAMED = 3
_NOTHING_ASSUMED = [dimension._replace(assumed=0.0) for dimension in DIMENSIONS]


class Offer(NamedTuple):
    """A live container. `usable`: its capacity less headroom, as the newest placement has it; a missing dimension is
    unknown."""

    member: Member
    usable: Amounts


class Leaving(NamedTuple):
    """A task that is to leave a container with its shard. `avoids`: the containers that tasks of the shard avoid, with
    that one; `load`: what the shard uses at least."""

    task: str
    shard: int
    container: str
    selector: str | None
    avoids: frozenset[str]
    load: Amounts


def job_tasks(job: str, config: Mapping[str, Any], generation: int, task_count: int) -> JobTasks:
    """The tasks of a running configuration, as placement has them."""
    reserved = config.get("resources")
    is_isolated = config.get("isolation") == "process"
    amounts = reserved if isinstance(reserved, Mapping) else {}
    return JobTasks(job, task_count, generation, is_isolated, amounts, selector_of(config))


def least_load(job: JobTasks, indexes: Collection[int], reported: Iterable[TaskLoad]) -> dict[str, float]:
    """What these tasks of a job use together, at least: 0 in a dimension that was neither measured nor reserved."""
    values = task_loads([job], reported, _NOTHING_ASSUMED).values[sorted(indexes)].sum(axis=0)
    return {dimension.name: float(value) for dimension, value in zip(DIMENSIONS, values, strict=True)}


def require_taker(leaving: Leaving, offers: Sequence[Offer]) -> str | None:
    """None when a container may take the shard, or what is not known of those that may. Raises Conflict (rule
    `elsewhere`) when none may, with what keeps each of them."""
    asked = constraint_of(leaving.selector)._replace(avoids=leaving.avoids)
    kept, takers = defaultdict[str, list[str]](list), list[Offer]()
    for offer in offers:
        why = obstacle(offer.member, asked, leaving.load, offer.usable)
        takers.append(offer) if why is None else kept[why].append(offer.member.name)
    if not takers:
        raise Conflict(_refusal(leaving, kept), field="container", rule="elsewhere")
    if any(offer.usable for offer in takers):
        return None
    return f"no placement has told yet what {_named([offer.member.name for offer in takers])} has room for"


def _refusal(leaving: Leaving, kept: dict[str, list[str]]) -> str:
    here = f"no other container than {leaving.container} may take shard {leaving.shard}, where {leaving.task} is"
    others = {why: [name for name in names if name != leaving.container] for why, names in kept.items()}
    found = [f"{_named(names)} ({why})" for why, names in sorted(others.items()) if names]
    return f"{here}: {'; '.join(found) or 'no other one is live'}"


def _named(names: Sequence[str]) -> str:
    first, rest = sorted(names)[:MOST_NAMED], len(names) - MOST_NAMED
    return ", ".join(first) + (f" and {rest} others" if rest > 0 else "")
