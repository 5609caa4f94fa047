"""Facts of the cell on which every process must agree: the number of shards, and which selectors have a slot.

A change of the facts takes a number of the counter of assignment epochs, as a change of an owner does. A set of shards
is read together with the facts, in one statement or under the number. So of two such reads, the one with the higher
number has both the newer facts and the newer owners.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from sqlalchemy import Connection, delete, exists, select, update
from sqlalchemy.dialects.postgresql import insert

from penstock.control.errors import Conflict
from penstock.store.cluster_tables import assignment
from penstock.store.tables import cluster
from penstock.tasks.selectors import in_words
from penstock.tasks.shards import Sharding

SHARD_COUNT = "shard_count"
WANTED_SHARD_COUNT = "wanted_shard_count"
SELECTORS = "selectors"
SHARDING_VERSION = "sharding_version"

FACTS = "(SELECT jsonb_object_agg(key, value) FROM cluster)"
"""All facts in the form of `facts_of`, for a statement that also reads shards."""


class ShardingFacts(NamedTuple):
    """`version`: the assignment number of the newest change. `wanted`: the shard count that was asked for."""

    sharding: Sharding
    version: int
    wanted: int


def facts_of(rows: Mapping[str, Any]) -> ShardingFacts:
    """The facts from their rows by key."""
    count = int(rows[SHARD_COUNT])
    sharding = Sharding(count, tuple(rows.get(SELECTORS, ())))
    return ShardingFacts(sharding, int(rows.get(SHARDING_VERSION, 0)), int(rows.get(WANTED_SHARD_COUNT, count)))


def read_facts(connection: Connection, *, hold: bool = False) -> ShardingFacts:
    """The facts. With `hold` no other transaction changes them until this one ends."""
    if hold:
        connection.execute(select(cluster.c.value).where(cluster.c.key == SHARD_COUNT).with_for_update())
    return facts_of({row.key: row.value for row in connection.execute(select(cluster.c.key, cluster.c.value))})


def ask_for_shards(connection: Connection, count: int) -> ShardingFacts:
    """Asks for another number of shards; returns the facts after that.

    The number changes at once if no shard was ever assigned. Otherwise the Shard Manager changes it when it can (see
    its README). Raises Conflict for a number that is neither a multiple nor a divisor of the present one, and for a
    smaller one that would mix tasks with different selectors in a shard.
    """
    facts = read_facts(connection, hold=True)
    present = facts.sharding.count
    if not connection.execute(select(exists().select_from(assignment))).scalar_one():
        connection.execute(delete(cluster).where(cluster.c.key == WANTED_SHARD_COUNT))
        _write(connection, SHARD_COUNT, count)
    elif count % present and present % count:
        raise Conflict(
            f"the shard count is {present}: {count} is neither a multiple nor a divisor of it",
            field=SHARD_COUNT,
            rule="multiple",
        )
    elif count < present and not facts.sharding.keeps_apart(count):
        names = "; ".join(in_words(selector) for selector in facts.sharding.selectors)
        raise Conflict(
            f"{count} shards would mix tasks that ask for {names}; a multiple of 16 keeps them apart",
            field=SHARD_COUNT,
            rule="selectors_apart",
        )
    else:
        _write(connection, WANTED_SHARD_COUNT, count)
    return read_facts(connection)


def set_shard_count(connection: Connection, count: int) -> None:
    """Sets the number of shards of a new cell. Raises Conflict once shards are assigned: use `ask_for_shards` then."""
    read_facts(connection, hold=True)
    if connection.execute(select(exists().select_from(assignment))).scalar_one():
        raise Conflict("shards are assigned: ask for another count", field=SHARD_COUNT, rule="unassigned")
    connection.execute(update(cluster).where(cluster.c.key == SHARD_COUNT).values(value=count))


def _write(connection: Connection, key: str, value: Any) -> None:
    statement = insert(cluster).values(key=key, value=value)
    connection.execute(
        statement.on_conflict_do_update(index_elements=["key"], set_={"value": statement.excluded.value})
    )
