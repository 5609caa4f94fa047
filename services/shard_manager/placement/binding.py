"""Binds each shard to one selector, and names the jobs whose tasks cannot run because of it. Pure.

Tasks of several jobs share a shard. A job that asks for what no container offers must not keep the other jobs from
running. So a shard is bound to the selector of its most important job whose selector can be met: by an open container,
or by the container that already has the shard. Containers do not start the tasks of jobs with another selector.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

from penstock.tasks.ownership import Member
from penstock.tasks.selectors import in_words, meets
from penstock.tasks.shards import SLOTS
from penstock.tasks.taking import ANYWHERE, Constraint, constraint_of
from services.shard_manager.placement.needs import Asks, Needs
from services.shard_manager.placement.problem import Ints

_NO_SLOT_LEFT = f"all {SLOTS} selector slots of the cell are taken by other regions and sets of labels"


class Unmet(NamedTuple):
    """A job whose tasks in `shards` cannot run where the job asks; `rule` says why."""

    job: str
    selector: str
    rule: str
    shards: tuple[int, ...]


class Bound(NamedTuple):
    """`constraint` [S]: indexes into `constraints`; `unmet`: in order of job."""

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
    """The selector of each shard. `members`: the live containers; `offers`: what the open containers offer; `home`: the
    present container of each shard."""
    kinds = set(offers)
    can_be_met = [any(meets(offer, selector) for offer in kinds) for selector in asks.selectors]
    possible = np.array(can_be_met, dtype=np.bool_)[asks.selector]
    for row in np.flatnonzero(~possible):
        member = members.get(home.get(int(asks.shard[row]), ""))
        possible[row] = member is not None and meets(member.offers(), asks.selectors[asks.selector[row]])
    rows = np.flatnonzero(possible)
    chosen = rows[np.unique(asks.shard[rows], return_index=True)[1]]
    constraint = np.zeros(shard_count, dtype=np.int64)
    constraint[asks.shard[chosen]] = asks.selector[chosen] + 1
    constraints = (ANYWHERE, *map(constraint_of, asks.selectors))
    refused = np.flatnonzero(constraint[asks.shard] != asks.selector + 1)
    leading = np.full(shard_count, -1)
    leading[asks.shard[chosen]] = asks.job[chosen]
    return Bound(constraint, constraints, _unmet(asks, refused, possible[refused], leading))


def without_slot(needs: Needs, offers: Iterable[frozenset[str]]) -> tuple[Unmet, ...]:
    """Jobs whose selector has no slot and will not get one, so that none of their tasks is in any shard.

    A selector that a live container meets gets a slot within seconds, while there are slots. `offers`: of the live
    containers.
    """
    kinds, is_full = set(offers), len(needs.sharding.selectors) >= SLOTS
    found: list[Unmet] = []
    for job, selector in needs.nowhere:
        if not any(meets(offer, selector) for offer in kinds):
            found.append(Unmet(job, selector, f"no container has {in_words(selector)}", ()))
        elif is_full:
            found.append(Unmet(job, selector, _NO_SLOT_LEFT, ()))
    return tuple(found)


def _unmet(asks: Asks, refused: Ints, is_possible: np.ndarray, leading: Ints) -> tuple[Unmet, ...]:
    """`leading` [S]: the job to whose selector the shard is bound."""
    found: dict[tuple[str, str, str], list[int]] = {}
    for row, possible in zip(refused, is_possible, strict=True):
        shard, selector = int(asks.shard[row]), asks.selectors[asks.selector[row]]
        rule = f"no open container has {in_words(selector)}"
        if possible:
            first = asks.jobs[leading[shard]]
            rule = f"it shares shards with job {first}, which takes precedence and asks for other containers"
        found.setdefault((asks.jobs[asks.job[row]], selector, rule), []).append(shard)
    return tuple(Unmet(*key, tuple(shards)) for key, shards in sorted(found.items()))
