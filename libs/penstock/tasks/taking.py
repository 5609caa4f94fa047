"""Whether a container may take a shard: by its availability, region and labels, by whom the shard avoids, and by size.
Pure.

One shard and one container: whether there is room beside other shards is the affair of placement, which can move those.
The Shard Manager lets a shard avoid containers only while another one may take it. By the same rule the Job Service
refuses a move that nobody could take.
"""

from __future__ import annotations

from typing import NamedTuple

from penstock.tasks.dimensions import NAMES, Amounts
from penstock.tasks.ownership import OPEN, Member
from penstock.tasks.selectors import parts


class Constraint(NamedTuple):
    """Where a shard may be: in one of `regions` (empty: in any region), on a container that has all `labels`, and on
    none of those that it `avoids`, by name."""

    regions: frozenset[str] = frozenset()
    labels: frozenset[str] = frozenset()
    avoids: frozenset[str] = frozenset()


ANYWHERE = Constraint()


def constraint_of(selector: str | None) -> Constraint:
    """What a selector asks for; `ANYWHERE` for None."""
    if selector is None:
        return ANYWHERE
    region, labels = parts(selector)
    return Constraint(frozenset() if region is None else frozenset([region]), labels)


def obstacle(member: Member, asked: Constraint, load: Amounts, usable: Amounts) -> str | None:
    """Why a live container may not take a shard, as in "b is ..."; None when it may.

    `load`: of the shard; `usable`: capacity less headroom. A dimension that is missing in one of the two is unknown,
    and no obstacle.
    """
    if member.name in asked.avoids:
        return "avoided by a task of the shard"
    if member.availability != OPEN:
        return member.availability
    if asked.regions and member.region not in asked.regions:
        return f"not in region {' or '.join(sorted(asked.regions))}"
    if not asked.labels <= member.offers():
        return f"without {', '.join(sorted(asked.labels - member.offers()))}"
    short = [name for name in NAMES if name in load and name in usable and load[name] > usable[name]]
    return f"too small in {', '.join(short)}" if short else None
