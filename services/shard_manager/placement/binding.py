"""Which of the selectors that a shard's tasks have it is bound to, and whose tasks cannot run for it. Pure.

Tasks of several jobs share a shard, and one that asks for what nobody offers must not keep the others from running: a
shard is bound to one selector, that of the most important of its jobs that have one which an open container meets, or
the container where the shard is already. The tasks of jobs that ask for others are held back by their container.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

from penstock.tasks.ownership import Member
from penstock.tasks.selectors import in_words, meets, parts
from penstock.tasks.shards import SLOTS
from services.shard_manager.placement.needs import Asks, Needs
from services.shard_manager.placement.problem import ANYWHERE, Constraint, Ints

_NO_PLACE_LEFT = f"the cell has places for {SLOTS} regions and sets of labels, and this is one more"


class Unmet(NamedTuple):
    """A job some of whose tasks, those in `shards`, cannot be where it asks; `rule` says why."""

    job: str
    selector: str
    rule: str
    shards: tuple[int, ...]


class Bound(NamedTuple):
    """`constraint` [S], indexes into `constraints`; `unmet` in order of job."""

    constraint: Ints
    constraints: tuple[Constraint, ...]
    unmet: tuple[Unmet, ...]


def bind(
    asks: Asks,
    shard_count: int,
    offers: Iterable[frozenset[str]],
    members: Mapping[str, Member],
    home: Mapping[int, str],
) -> Bound:
    """The selector of each shard. `members`: the live containers; `offers`: what those of them offer that take shards;
    `home`: where shards are."""
    kinds = set(offers)
    can_be_had = [any(meets(offer, selector) for offer in kinds) for selector in asks.selectors]
    possible = np.array(can_be_had, dtype=np.bool_)[asks.selector]
    for row in np.flatnonzero(~possible):
        member = members.get(home.get(int(asks.shard[row]), ""))
        possible[row] = member is not None and meets(member.offers(), asks.selectors[asks.selector[row]])
    rows = np.flatnonzero(possible)
    chosen = rows[np.unique(asks.shard[rows], return_index=True)[1]]
    constraint = np.zeros(shard_count, dtype=np.int64)
    constraint[asks.shard[chosen]] = asks.selector[chosen] + 1
    constraints = (ANYWHERE, *map(_constraint, asks.selectors))
    held = np.flatnonzero(constraint[asks.shard] != asks.selector + 1)
    leading = np.full(shard_count, -1)
    leading[asks.shard[chosen]] = asks.job[chosen]
    return Bound(constraint, constraints, _unmet(asks, held, possible[held], leading))


def without_a_place(needs: Needs, offers: Iterable[frozenset[str]]) -> tuple[Unmet, ...]:
    """Jobs none of whose tasks is in any shard, and will not be soon: what a live container has gets a place within
    seconds, while there are places. `offers`: of the live containers."""
    kinds, is_full = set(offers), len(needs.sharding.selectors) >= SLOTS
    found: list[Unmet] = []
    for job, selector in needs.nowhere:
        if not any(meets(offer, selector) for offer in kinds):
            found.append(Unmet(job, selector, f"no container has {in_words(selector)}", ()))
        elif is_full:
            found.append(Unmet(job, selector, _NO_PLACE_LEFT, ()))
    return tuple(found)


def _constraint(selector: str) -> Constraint:
    region, labels = parts(selector)
    return Constraint(frozenset() if region is None else frozenset([region]), labels)


def _unmet(asks: Asks, held: Ints, is_there: np.ndarray, leading: Ints) -> tuple[Unmet, ...]:
    """`leading` [S]: the job whose selector the shard is bound to."""
    found: dict[tuple[str, str, str], list[int]] = {}
    for row, possible in zip(held, is_there, strict=True):
        shard, selector = int(asks.shard[row]), asks.selectors[asks.selector[row]]
        rule = f"no open container has {in_words(selector)}"
        if possible:
            first = asks.jobs[leading[shard]]
            rule = f"it shares shards with job {first}, which goes first and asks for other containers"
        found.setdefault((asks.jobs[asks.job[row]], selector, rule), []).append(shard)
    return tuple(Unmet(*key, tuple(shards)) for key, shards in sorted(found.items()))
