"""Which of the regions that a shard's tasks ask for it goes to, and whose tasks cannot run for it. Pure.

Tasks of several jobs share a shard, and one that asks for what nobody offers must not keep the others from running: a
shard is bound to one region, that of the most important of its jobs that asks for one where there is an open container,
or where the shard is already. The tasks of jobs that ask for another are held back by their container.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

from penstock.tasks.ownership import Member
from penstock.tasks.shards import SLOTS
from services.shard_manager.placement.needs import Asks
from services.shard_manager.placement.problem import ANYWHERE, Constraint, Ints


class Unmet(NamedTuple):
    """A job some of whose tasks, those in `shards`, cannot be where it asks; `rule` says why."""

    job: str
    region: str
    rule: str
    shards: tuple[int, ...]


class Bound(NamedTuple):
    """`constraint` [S], indexes into `constraints`; `unmet` in order of job."""

    constraint: Ints
    constraints: tuple[Constraint, ...]
    unmet: tuple[Unmet, ...]


def bind(
    asks: Asks, shard_count: int, open_regions: Iterable[str], members: Mapping[str, Member], home: Mapping[int, str]
) -> Bound:
    """The region of each shard. `members`: the live containers, of which those in `open_regions` take shards; `home`:
    where shards are."""
    is_open = np.array([region in set(open_regions) for region in asks.regions], dtype=np.bool_)
    possible = is_open[asks.region] if len(asks.regions) else np.zeros(0, dtype=np.bool_)
    for row in np.flatnonzero(~possible):
        member = members.get(home.get(int(asks.shard[row]), ""))
        possible[row] = member is not None and member.region == asks.regions[asks.region[row]]
    rows = np.flatnonzero(possible)
    chosen = rows[np.unique(asks.shard[rows], return_index=True)[1]]
    constraint = np.zeros(shard_count, dtype=np.int64)
    constraint[asks.shard[chosen]] = asks.region[chosen] + 1
    constraints = (ANYWHERE, *(Constraint(frozenset([region])) for region in asks.regions))
    held = np.flatnonzero(constraint[asks.shard] != asks.region + 1)
    leading = np.full(shard_count, -1)
    leading[asks.shard[chosen]] = asks.job[chosen]
    return Bound(constraint, constraints, _unmet(asks, held, possible[held], leading))


def without_a_place(jobs: Iterable[tuple[str, str]]) -> tuple[Unmet, ...]:
    """Jobs, with their regions, none of whose tasks is in any shard."""
    rule = f"the cell keeps {SLOTS} regions apart, and this is one more"
    return tuple(Unmet(job, region, rule, ()) for job, region in jobs)


def _unmet(asks: Asks, held: Ints, is_there: np.ndarray, leading: Ints) -> tuple[Unmet, ...]:
    """`leading` [S]: the job whose region the shard goes to."""
    found: dict[tuple[str, str, str], list[int]] = {}
    for row, possible in zip(held, is_there, strict=True):
        shard, region = int(asks.shard[row]), asks.regions[asks.region[row]]
        rule = f"no open container is in region {region}"
        if possible:
            rule = (
                f"it shares shards with job {asks.jobs[leading[shard]]}, which goes first and asks for another region"
            )
        found.setdefault((asks.jobs[asks.job[row]], region, rule), []).append(shard)
    return tuple(Unmet(*key, tuple(shards)) for key, shards in sorted(found.items()))
