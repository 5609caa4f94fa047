"""A pool is used again by the next query."""

from __future__ import annotations

from penstock.spark.pools import SchedulerPools


def test_there_are_as_many_pools_as_queries_at_the_same_time():
    pools = SchedulerPools()
    first, second = pools.take(), pools.take()
    assert first != second
    pools.give_back(first)
    assert pools.take() == first
    assert pools.take() not in {first, second}
