"""Facts of the cell that every process must agree on: how many shards there are, and which selectors have a
place.

A change of them takes a number of the counter of assignment epochs, as a change of owner does. So of any two sets of
shards, each read together with the facts in one statement or under the number, the one with the higher number is the
newer in both respects.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from sqlalchemy import Connection, delete, exists, select, text, update
from sqlalchemy.dialects.postgresql import insert

from penstock.control.errors import Conflict
from penstock.store.cluster_tables import assignment
from penstock.store.selectors import selector_in
from penstock.store.tables import cluster
from penstock.tasks.selectors import in_words
from penstock.tasks.shards import Sharding

SHARD_COUNT = "shard_count"
WANTED_SHARD_COUNT = "wanted_shard_count"
SELECTORS = "regions"  # what it was called when jobs could ask for regions only
SHARDING_VERSION = "sharding_version"

FACTS = "(SELECT jsonb_object_agg(key, value) FROM cluster)"
"""All facts, as `facts_of` takes them, for a statement that reads shards in the same moment."""

_SELECTORS_OF_JOBS = text(f"SELECT DISTINCT {selector_in('config')} FROM running")


class ShardingFacts(NamedTuple):
    """`version`: the assignment number of the newest change. `wanted`: the shard count that somebody asked for."""

    sharding: Sharding
    version: int
    wanted: int


def facts_of(rows: Mapping[str, Any]) -> ShardingFacts:
    """The facts from their rows by key."""
    count = int(rows[SHARD_COUNT])
    sharding = Sharding(count, tuple(rows.get(SELECTORS, ())))
    return ShardingFacts(sharding, int(rows.get(SHARDING_VERSION, 0)), int(rows.get(WANTED_SHARD_COUNT, count)))


def read_facts(connection: Connection, *, hold: bool = False) -> ShardingFacts:
    """The facts at this moment. With `hold` nobody else changes them until the transaction ends."""
    if hold:
        connection.execute(select(cluster.c.value).where(cluster.c.key == SHARD_COUNT).with_for_update())
    return facts_of({row.key: row.value for row in connection.execute(select(cluster.c.key, cluster.c.value))})


def write_sharding(connection: Connection, sharding: Sharding, version: int) -> None:
    """Changes the facts under an assignment number."""
    _write(connection, SHARD_COUNT, sharding.count)
    _write(connection, SELECTORS, list(sharding.selectors))
    _write(connection, SHARDING_VERSION, version)


def ask_for_shards(connection: Connection, count: int) -> ShardingFacts:
    """Asks for another number of shards; the facts after that.

    At once when no shard was ever assigned; else the Shard Manager does it when it can (see its README). Raises
    Conflict for a number that is neither a multiple nor a divisor of the present one, and for a smaller one that would
    mix tasks with different selectors in a shard.
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
            f"{count} shards would mix tasks that ask for {names}: a multiple of 16 keeps all apart",
            field=SHARD_COUNT,
            rule="regions_apart",
        )
    else:
        _write(connection, WANTED_SHARD_COUNT, count)
    return read_facts(connection)


def set_shard_count(connection: Connection, count: int) -> None:
    """Chooses the number of shards of a new cell. Raises Conflict once shards are assigned: see `ask_for_shards`."""
    read_facts(connection, hold=True)
    if connection.execute(select(exists().select_from(assignment))).scalar_one():
        raise Conflict("shards are assigned: ask for another count", field=SHARD_COUNT, rule="unassigned")
    connection.execute(update(cluster).where(cluster.c.key == SHARD_COUNT).values(value=count))


def selectors_of_jobs(connection: Connection) -> set[str]:
    """The selectors of running configurations."""
    found = connection.execute(_SELECTORS_OF_JOBS).scalars()
    return {selector for selector in found if selector is not None}


def _write(connection: Connection, key: str, value: Any) -> None:
    statement = insert(cluster).values(key=key, value=value)
    connection.execute(
        statement.on_conflict_do_update(index_elements=["key"], set_={"value": statement.excluded.value})
    )
