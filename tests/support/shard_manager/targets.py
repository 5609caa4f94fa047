"""Targets of placement for a small cell of two containers."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.tasks.ownership import Member
from penstock.tasks.shards import Sharding
from services.shard_manager.placement.cell import Rules
from services.shard_manager.placement.needs import Needs, needs_of
from services.shard_manager.placement.target import Assignment, Target, target_of
from tests.support.shard_manager.facts import members

RULES = Rules()
SHARDS = 12
SHARDING = Sharding(SHARDS, ("west", "north"))
IDLE = needs_of([], [], SHARDING)
TWO = members("a", "b")


def made(
    hosts: Mapping[str, Member] | None = None,
    needs: Needs = IDLE,
    present: Assignment | None = None,
    rules: Rules = RULES,
) -> Target:
    """A target; `hosts`: the live containers, two unless said otherwise."""
    return target_of(TWO if hosts is None else hosts, needs, present or {}, rules, 0.0)


def counts(target: Target) -> list[int]:
    """How many shards each container has, ascending."""
    return sorted(list(target.where.values()).count(name) for name in set(target.where.values()))
