"""Jobs that ask for containers by label, over HTTP."""

from __future__ import annotations

import pytest

from penstock.control.errors import InvalidConfig, NotFound
from penstock.store.cluster import read_facts
from penstock.store.engine import transaction
from penstock.tasks.shards import Sharding
from penstock.wire.job_client import JobClient
from services.shard_manager.store.sharding import give_slots
from tests.support.job_service.service import CONFIG, RunningJobService
from tests.support.store.jobs import make_layer
from tests.support.store.running import commit_job


def test_labels_are_layered(client: JobClient) -> None:
    """1. A job asks for a label, and a layer for another one. 2. The layer takes its own back."""
    client.put_job("etl", {**CONFIG, "region": "eu", "container_labels": {"disk": "ssd"}})
    written = client.put_layer("etl", "oncall", {"container_labels": {"gpu": "yes"}}, if_match=0)
    assert client.get_job("etl").config["container_labels"] == {"disk": "ssd", "gpu": "yes"}
    leaves = {leaf.field: (leaf.layer, leaf.value) for leaf in client.explain("etl").leaves}
    assert leaves["container_labels.disk"] == ("base", "ssd")
    assert leaves["container_labels.gpu"] == ("oncall", "yes")
    client.patch_layer("etl", "oncall", {"container_labels": {"gpu": None}}, if_match=written.version)
    assert client.get_job("etl").config["container_labels"] == {"disk": "ssd"}


def test_bad_labels_are_refused_with_their_field(client: JobClient) -> None:
    for labels, field, rule in (
        ({"disk=ssd": "x"}, "container_labels.disk=ssd", "bad_key"),
        ({"disk": "ssd,eu"}, "container_labels.disk", "string_pattern_mismatch"),
        ({f"l{number}": "x" for number in range(11)}, "container_labels", "too_long"),
    ):
        with pytest.raises(InvalidConfig) as refused:
            client.put_job("etl", {**CONFIG, "container_labels": labels})
        assert (refused.value.field, refused.value.rule) == (field, rule)
    with pytest.raises(NotFound):
        client.get_job("etl")


def test_labels_that_change_are_planned_as_a_region_and_have_shards_of_their_own(
    service: RunningJobService, client: JobClient
) -> None:
    """1. A job that asks for nothing: to ask for a label is what it is to ask for a region. 2. It does, and nobody gave
    the label a place yet. 3. The Shard Manager does."""
    client.put_job("etl", make_layer(task_count=1))
    commit_job(service.engine, "etl", task_count=1)
    labels, region = (client.plan("etl", asks) for asks in ({"container_labels": {"disk": "ssd"}}, {"region": "eu"}))
    assert [change.field for change in labels.fields] == ["container_labels.disk"]
    assert (labels.kind, labels.steps, labels.tasks_touched) == (region.kind, region.steps, region.tasks_touched)
    assert labels.kind == "rescale"
    commit_job(service.engine, "etl", task_count=1, container_labels={"disk": "ssd"})
    assert [view.shard for view in client.tasks("etl").tasks] == [None]
    with transaction(service.engine) as connection:
        count = read_facts(connection).sharding.count
        give_slots(connection, {"eu", "disk=ssd"})
    expected = Sharding(count, ("disk=ssd", "eu")).shard_of("etl/0", "disk=ssd")
    assert [view.shard for view in client.tasks("etl").tasks] == [expected]
