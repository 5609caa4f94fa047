"""Another number of shards, and more selectors with a place, on a running cell: no task changes its owner by it.

Both take a number of the counter of assignment epochs first, which locks out every change of owner until the
transaction ends, and are called by the leader among the Shard Managers, after its epoch was checked.
"""

from __future__ import annotations

from dataclasses import replace

from sqlalchemy import Connection, text

from penstock.control.errors import Conflict
from penstock.store.alerts import raise_alert
from penstock.store.cluster import SHARD_COUNT, ShardingFacts, read_facts, write_sharding
from penstock.store.engine import CHANGED_ASSIGNMENT, next_number, notify
from penstock.store.shards import ASSIGNMENT_COUNTER
from penstock.tasks.selectors import in_words
from penstock.tasks.shards import SLOTS

WITHOUT_PLACE = "region_without_place"

# The parts of a shard have its owner, and its epoch: for their tasks nothing changed.
_SPLIT = text(
    """
    INSERT INTO assignment (shard, container, epoch, moved_at)
    SELECT shard + part * :present, container, epoch, moved_at
    FROM assignment CROSS JOIN generate_series(1, :parts - 1) AS part
    """
)
_APART = text(
    """
    SELECT count(*) FROM (
        SELECT shard % :count FROM assignment
        GROUP BY shard % :count HAVING count(DISTINCT coalesce(container, '')) > 1
    ) AS apart
    """
)
# The highest epoch of the parts: that of no task goes down, so no checkpoint fences it.
_MERGE = text(
    """
    UPDATE assignment SET epoch = merged.epoch
    FROM (SELECT shard % :count AS shard, max(epoch) AS epoch FROM assignment GROUP BY shard % :count) AS merged
    WHERE assignment.shard = merged.shard
    """
)
_FORGET = text("DELETE FROM assignment WHERE shard >= :count")


def reshard(connection: Connection, count: int) -> ShardingFacts:
    """Makes it `count` shards, if that is what is wanted now; the facts after that.

    Raises Conflict for a count that is neither a multiple nor a divisor, and for a divisor while shards that would be
    one have different owners.
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


def give_a_place(connection: Connection, selectors: set[str]) -> ShardingFacts:
    """Appends selectors to those that have a place; the facts after that. An alert for each that finds none."""
    facts = read_facts(connection)
    if selectors <= set(facts.sharding.selectors):
        return facts
    facts = read_facts(connection, hold=True)
    sharding = facts.sharding.with_selectors(selectors)
    for selector in sorted(selectors - set(sharding.selectors)):
        asked = in_words(selector)
        message = f"the cell has places for {SLOTS} regions and sets of labels: no task of a job with {asked} can run"
        raise_alert(connection, WITHOUT_PLACE, selector, message, {})
    if sharding != facts.sharding:
        write_sharding(connection, sharding, next_number(connection, ASSIGNMENT_COUNTER))
        notify(connection, CHANGED_ASSIGNMENT)
    return read_facts(connection)


def _merge(connection: Connection, count: int) -> None:
    values = {"count": count}
    apart = connection.execute(_APART, values).scalar_one()
    if apart:
        raise Conflict(f"{apart} of {count} shards would have more than one owner", field=SHARD_COUNT, rule="together")
    connection.execute(_MERGE, values)
    connection.execute(_FORGET, values)
