"""The contract of `ShardStore`: shards in another number, and regions that get a place."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from penstock.control.errors import Conflict
from penstock.store.shards import Change
from penstock.tasks.ownership import Owner
from penstock.tasks.shards import Sharding
from tests.contract.conftest import SHARDS
from tests.contract.shard_store_forms import form_of, join, member, own


@pytest.fixture(params=["postgres", "memory"])
def form(request: pytest.FixtureRequest) -> Any:
    return form_of(request)


def test_more_shards_change_no_owner_and_no_epoch(form: Any) -> None:
    """1. Nothing changes before it is wanted. 2. Each part has the owner and the epoch of the whole, under a version
    above all epochs. 3. Once more changes nothing. 4. A container that asks the store hears all of one moment."""
    epoch = form.elect("a")
    for name in ("c1", "c2"):
        join(form.store, epoch, name)
    owned = own(form.store, epoch, "c1")
    form.store.record({1: Change("c2", owned[1].epoch)}, epoch)
    before = form.store.take_over(epoch)
    assert form.store.reshard(3 * SHARDS, epoch) == before
    form.want(3 * SHARDS)
    cell = form.store.reshard(3 * SHARDS, epoch)
    assert cell.owners == {shard: before.owners[shard % SHARDS] for shard in range(3 * SHARDS)}
    assert cell.facts.sharding == replace(before.facts.sharding, count=3 * SHARDS)
    assert cell.facts.version > max(owner.epoch for owner in cell.owners.values())
    assert form.store.reshard(3 * SHARDS, epoch) == form.store.take_over(epoch) == cell
    assert form.store.read(cell.facts.version).facts == cell.facts
    stored = form.renew_by_itself("c2", "one")
    parts = range(1, 3 * SHARDS, SHARDS)
    assert stored == (dict.fromkeys(parts, cell.owners[1].epoch), cell.facts.version, cell.facts.sharding)


def test_fewer_shards_take_parts_that_have_one_owner(form: Any) -> None:
    """1. While two owners have parts of a shard nothing changes. 2. Then the whole has the greatest of their epochs."""
    epoch = form.elect("a")
    for name in ("c1", "c2"):
        join(form.store, epoch, name)
    owned = own(form.store, epoch, "c1")
    form.want(SHARDS // 2)
    apart = form.store.record({0: Change("c2", owned[0].epoch)}, epoch)
    before = form.store.take_over(epoch)
    with pytest.raises(Conflict):
        form.store.reshard(SHARDS // 2, epoch)
    assert form.store.take_over(epoch) == before
    back = form.store.record({0: Change("c1", apart[0].epoch)}, epoch)
    cell = form.store.reshard(SHARDS // 2, epoch)
    assert cell.owners == {0: back[0], 1: owned[1]}
    assert (cell.facts.sharding.count, cell.facts.wanted) == (SHARDS // 2, SHARDS // 2)


def test_a_container_that_restarts_after_the_change_has_all_parts_under_a_new_epoch(form: Any) -> None:
    epoch = form.elect("a")
    join(form.store, epoch, "c1")
    own(form.store, epoch, "c1")
    form.want(2 * SHARDS)
    newest = form.store.reshard(2 * SHARDS, epoch).facts.version
    _, changed, _, facts = form.store.register(member("c1", "two"), empty=True, above=newest, leader_epoch=epoch)
    assert changed == dict.fromkeys(range(2 * SHARDS), Owner("c1", newest + 1))
    assert facts.sharding.count == 2 * SHARDS


def test_regions_of_containers_and_of_jobs_get_a_place(form: Any) -> None:
    """In the order in which they come, and each change under a number of its own."""
    epoch = form.elect("a")
    assert form.store.take_over(epoch).facts.sharding.regions == ()
    first = form.store.register(member("c1"), empty=True, above=-1, leader_epoch=epoch).facts
    assert first.sharding.regions == ("local",)
    form.run("job", region="here")
    form.store.give_jobs_regions_a_place(epoch)
    second = form.store.read(-1).facts
    assert second.sharding == Sharding(SHARDS, ("local", "here"))
    assert second.version > first.version > 0
    form.store.give_jobs_regions_a_place(epoch)
    assert form.store.take_over(epoch).facts == second
