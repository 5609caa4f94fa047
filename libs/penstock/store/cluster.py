"""Facts of the cell on which every process must agree: the number of shards, and which selectors have a slot.

A change of the facts takes a number of the counter of assignment epochs, as a change of an owner does. A set of shards
is read together with the facts, in one statement or under the number. So of two such reads, the one with the higher
number has both the newer facts and the newer owners.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from sqlalchemy import Connection, text

from penstock.control.errors import Conflict
from penstock.store.json import as_jsonb
from penstock.tasks.selectors import in_words
from penstock.tasks.shards import Sharding

SHARD_COUNT = "shard_count"
WANTED_SHARD_COUNT = "wanted_shard_count"
SELECTORS = "selectors"
SHARDING_VERSION = "sharding_version"
INCARNATION = "incarnation"

FACTS = "(SELECT jsonb_object_agg(key, value) FROM cluster)"
"""All facts in the form of `facts_of`, for a statement that also reads shards."""

_HOLD = text("SELECT value FROM cluster WHERE key = :key FOR UPDATE")
_READ = text("SELECT key, value FROM cluster")
_WRITE = text(
    "INSERT INTO cluster (key, value) VALUES (:key, :value) ON CONFLICT (key) DO UPDATE SET value = excluded.value"
)
_FORGET = text("DELETE FROM cluster WHERE key = :key")
_IS_ASSIGNED = text("SELECT EXISTS (SELECT FROM assignment)")


class ShardingFacts(NamedTuple):
    """`version`: the assignment number of the newest change. `wanted`: the shard count that was asked for.

    `incarnation`: that of the store (`penstock.store.incarnation`).
    """

    sharding: Sharding
    version: int
    wanted: int
    incarnation: str = ""


def facts_of(rows: Mapping[str, Any]) -> ShardingFacts:
    """The facts from their rows by key."""
    count = int(rows[SHARD_COUNT])
    sharding = Sharding(count, tuple(rows.get(SELECTORS, ())))
    version, wanted = int(rows.get(SHARDING_VERSION, 0)), int(rows.get(WANTED_SHARD_COUNT, count))
    return ShardingFacts(sharding, version, wanted, str(rows.get(INCARNATION, "")))


def read_facts(connection: Connection, *, hold: bool = False) -> ShardingFacts:
    """The facts. With `hold` no other transaction changes them until this one ends."""
    if hold:
        connection.execute(_HOLD, {"key": SHARD_COUNT})
    return facts_of({row.key: row.value for row in connection.execute(_READ)})


def ask_for_shards(connection: Connection, count: int) -> ShardingFacts:
    """Asks for another number of shards; returns the facts after that.

    The number changes at once if no shard was ever assigned. Otherwise the Shard Manager changes it when it can (see
    its README). Raises Conflict for a number that is neither a multiple nor a divisor of the present one, and for a
    smaller one that would mix tasks with different selectors in a shard.
    """
    facts = read_facts(connection, hold=True)
    present = facts.sharding.count
    if not connection.execute(_IS_ASSIGNED).scalar_one():
        connection.execute(_FORGET, {"key": WANTED_SHARD_COUNT})
        write_fact(connection, SHARD_COUNT, count)
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
        write_fact(connection, WANTED_SHARD_COUNT, count)
    return read_facts(connection)


def write_fact(connection: Connection, key: str, value: Any) -> None:
    """Writes a fact, as JSON."""
    connection.execute(_WRITE, {"key": key, "value": as_jsonb(value)})
