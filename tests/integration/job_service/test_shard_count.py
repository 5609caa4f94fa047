"""Asking for another number of shards."""

from __future__ import annotations

import pytest
from sqlalchemy import text

from penstock.control.errors import Conflict
from penstock.store.cluster import ask_for_shards, read_facts
from penstock.store.engine import transaction
from penstock.tasks.shards import Sharding
from penstock.wire.job_client import JobClient
from services.shard_manager.store.owners import ensure_shards
from services.shard_manager.store.sharding import write_sharding
from tests.support import calls
from tests.support.job_service.service import RunningJobService


def test_of_a_new_cell_any_number_and_then_multiples_and_divisors(
    client: JobClient, service: RunningJobService
) -> None:
    """1. Before any shard is assigned the count changes at once. 2. Later it is what is wanted that changes, and
    3. only to what can be reached in one step; asking for the present number takes the wish back."""
    assert client.ask_for_shards(12).shard_count == 12
    with transaction(service.engine) as connection:
        ensure_shards(connection, 12)
    for wanted in (36, 4, 12):
        asked = client.ask_for_shards(wanted)
        assert (asked.shard_count, asked.wanted_shard_count) == (12, wanted)
        page = client.shards()
        assert (page.shard_count, page.wanted_shard_count, len(page.shards)) == (12, wanted, 12)
    with pytest.raises(Conflict) as refused:
        client.ask_for_shards(18)
    assert (refused.value.field, refused.value.rule) == ("shard_count", "multiple")
    with transaction(service.engine) as connection:
        assert read_facts(connection).wanted == 12
        assert connection.execute(text("SELECT count(*) FROM assignment")).scalar_one() == 12


def test_a_number_that_would_mix_regions_in_a_shard_is_refused(client: JobClient, service: RunningJobService) -> None:
    with transaction(service.engine) as connection:
        ask_for_shards(connection, 12)
        ensure_shards(connection, 12)
        write_sharding(connection, Sharding(12, ("east", "north", "disk=ssd")), version=1)
    assert client.ask_for_shards(4).wanted_shard_count == 4
    asked = "region east; region north; label disk=ssd"
    with pytest.raises(Conflict, match=f"6 shards would mix tasks that ask for {asked}") as refused:
        client.ask_for_shards(6)
    assert (refused.value.field, refused.value.rule) == ("shard_count", "selectors_apart")
    assert client.shards().wanted_shard_count == 4


@pytest.mark.parametrize("body", [{"shard_count": 0}, {"shard_count": 1_000_001}, {"shard_count": "many"}, {}])
def test_a_number_that_never_is_one_is_refused_with_its_field(service: RunningJobService, body: object) -> None:
    answer = calls.put(f"{service.url}/v1/shards", json=body, headers={"Authorization": f"Bearer {service.admin}"})
    assert answer.status_code == 422
    assert answer.json()["field"] == "body.shard_count"
