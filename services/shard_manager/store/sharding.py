"""SQL of the shard count and the selector slots of a running cell. Neither change gives a task another owner.

Both take a number of the counter of assignment epochs first, which locks out every change of owner until the
transaction ends. The caller is the leader and checks its epoch in the same transaction.
"""

from __future__ import annotations

from dataclasses import replace

from sqlalchemy import Connection, text

from penstock.control.errors import Conflict
from penstock.model.alerts import AlertKind
from penstock.store.alerts import Found, replace_alerts
from penstock.store.cluster import SELECTORS, SHARD_COUNT, SHARDING_VERSION, ShardingFacts, read_facts, write_fact
from penstock.store.engine import CHANGED_ASSIGNMENT, next_number, notify
from penstock.store.shards import ASSIGNMENT_COUNTER
from penstock.tasks.selectors import in_words
from penstock.tasks.shards import SLOTS, Sharding

# The parts of a shard have its owner and its epoch: nothing changes for their tasks.
_SPLIT = text(
    """
    INSERT INTO assignment (shard, container, epoch, moved_at)
    SELECT shard + part * :present, container, epoch, moved_at
    FROM assignment CROSS JOIN generate_series(1, :parts - 1) AS part
    """
)
_COUNT_SEPARATED = text(
    """
    SELECT count(*) FROM (
        SELECT shard % :count FROM assignment
        GROUP BY shard % :count HAVING count(DISTINCT coalesce(container, '')) > 1
    ) AS separated
    """
)
# The highest epoch of the parts: the epoch of no task goes down, so no checkpoint fences it.
_MERGE = text(
    """
    UPDATE assignment SET epoch = merged.epoch
    FROM (SELECT shard % :count AS shard, max(epoch) AS epoch FROM assignment GROUP BY shard % :count) AS merged
    WHERE assignment.shard = merged.shard
    """
)
_DELETE_MERGED = text("DELETE FROM assignment WHERE shard >= :count")


def reshard(connection: Connection, count: int) -> ShardingFacts:
    """Changes the number of shards to `count`, if that is what is wanted now; returns the facts after that.

    Raises Conflict for a count that is neither a multiple nor a divisor of the present one, and for a divisor while
    shards that would become one have different owners.
    """
    facts = read_facts(connection, hold=True)
    present = facts.sharding.count
    if count == present or count != facts.wanted:
        return facts
    version = next_number(connection, ASSIGNMENT_COUNTER)
    if count % present == 0:
        connection.execute(_SPLIT, {"present": present, "parts": count // present})
    elif present % count == 0:
        _merge(connection, count)
    else:
        raise Conflict(f"{count} is neither a multiple nor a divisor of {present}", field=SHARD_COUNT, rule="multiple")
    write_sharding(connection, replace(facts.sharding, count=count), version)
    notify(connection, CHANGED_ASSIGNMENT)
    return read_facts(connection)


def give_slots(connection: Connection, selectors: set[str]) -> ShardingFacts:
    """Gives selectors a slot each, as far as there are slots; returns the facts after that."""
    facts = read_facts(connection)
    if selectors <= set(facts.sharding.selectors):
        return facts
    facts = read_facts(connection, hold=True)
    sharding = facts.sharding.with_selectors(selectors)
    if sharding != facts.sharding:
        write_sharding(connection, sharding, next_number(connection, ASSIGNMENT_COUNTER))
        notify(connection, CHANGED_ASSIGNMENT)
    return read_facts(connection)


def sync_alerts_of_slots(connection: Connection, asked: set[str]) -> None:
    """Makes the selectors that jobs ask for and that have no slot the open alerts about slots."""
    without = asked - set(read_facts(connection).sharding.selectors)
    found: Found = {(AlertKind.SELECTOR_WITHOUT_SLOT, selector): (_without_slot(selector), {}) for selector in without}
    replace_alerts(connection, [AlertKind.SELECTOR_WITHOUT_SLOT], found)


def write_sharding(connection: Connection, sharding: Sharding, version: int) -> None:
    """Writes shard count and selectors under an assignment number."""
    write_fact(connection, SHARD_COUNT, sharding.count)
    write_fact(connection, SELECTORS, list(sharding.selectors))
    write_fact(connection, SHARDING_VERSION, version)


def _without_slot(selector: str) -> str:
    asked = in_words(selector)
    return f"all {SLOTS} selector slots of the cell are taken: no task of a job that asks for {asked} can run"


def _merge(connection: Connection, count: int) -> None:
    values = {"count": count}
    separated = connection.execute(_COUNT_SEPARATED, values).scalar_one()
    if separated:
        raise Conflict(f"{separated} of {count} shards would have several owners", field=SHARD_COUNT, rule="together")
    connection.execute(_MERGE, values)
    connection.execute(_DELETE_MERGED, values)
