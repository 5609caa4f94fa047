"""`/v1/jobs/{job}/rebalance`, `/rescale` with `balance`, and `penstock rebalance`."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from penstock.control.errors import Conflict, Forbidden, InvalidConfig, NotFound
from penstock.tasks.redistribution import RedistributionRequest, SealRequest
from penstock.wire.job_client import JobClient
from tests.support.cli.shell import Shell
from tests.support.job_service.service import CONFIG, RunningJobService
from tests.support.state_syncer.cell import Cell

SKEWED = (60.0, 20.0, 10.0, 10.0, 5.0, 5.0, 5.0, 5.0)
EVEN = (10.0,) * 8


def report(cell: Cell, rates: Sequence[float], *, first: int = 0, age: str = "0 s", **task: object) -> None:
    """A task of the container `a` has measured key groups from `first` on."""
    told = {"first": first, "records_per_second": rates, "seconds": task.get("seconds", 600.0)}
    cell.do(
        """
        INSERT INTO tasks (job, index, container, state, revision, generation, restarts, epoch, progress, reported_at)
        VALUES ('etl', :index, 'a', :state, 1, 1, 0, 1, CAST(:progress AS jsonb), now() - CAST(:age AS interval))
        ON CONFLICT (job, index, container) DO UPDATE SET progress = excluded.progress, state = excluded.state,
            reported_at = excluded.reported_at
        """,
        index=first,
        state=task.get("state", "running"),
        progress=json.dumps({"key_group_rates": told}),
        age=age,
    )


def test_the_present_traffic_decides_where_ranges_begin(client: JobClient, cell: Cell) -> None:
    """1. Two tasks of four key groups each measure. 2. What is asked for and what is written are the same, with what it
    gains. 3. It is a write to the layer as any other, and stays. 4. Once more gains nothing."""
    client.put_job("etl", {**CONFIG, "task_count": 2})
    client.put_layer("etl", "oncall", {"priority": 1}, if_match=0, expires_in_seconds=None)
    report(cell, SKEWED[:4])
    report(cell, SKEWED[4:], first=4)
    shown = client.balance("etl")
    done = client.rebalance("etl", reason="one hot key")
    assert (shown.bounds, shown.present, shown.records_per_second) == ([1], [4], list(SKEWED))
    assert shown.model_dump() == done.model_dump(exclude={"written"})
    assert done.before is not None
    assert done.after is not None
    assert (done.before.largest_records_per_second, done.after.largest_records_per_second) == (100.0, 60.0)
    assert (done.before.imbalance, done.after.imbalance, done.gain) == (1.6667, 1.0, 0.4)
    layer = client.get_layer("etl", "oncall")
    assert (layer.config, layer.reason, layer.expires_at) == (
        {"priority": 1, "key_group_bounds": [1]},
        "one hot key",
        None,
    )
    assert (done.written.layer, done.written.version) == ("oncall", 2)
    with pytest.raises(Conflict, match="it would lose 0") as refused:
        client.rebalance("etl", min_gain=0)
    assert refused.value.rule == "min_gain"


def test_what_is_refused(service: RunningJobService, client: JobClient, cell: Cell) -> None:
    client.put_job("etl", {**CONFIG, "task_count": 2})
    with pytest.raises(Conflict, match="of only 0 of 8 key groups is known") as refused:
        client.rebalance("etl")
    assert refused.value.rule == "measured"
    report(cell, SKEWED[:3])
    with pytest.raises(Conflict, match="of only 3 of 8 key groups"):
        client.rebalance("etl")
    report(cell, EVEN)
    with pytest.raises(Conflict, match="less than 10"):
        client.rebalance("etl")
    report(cell, SKEWED)
    with pytest.raises(Conflict, match="less than 50"):
        client.rebalance("etl", min_gain=0.5)
    with pytest.raises(NotFound):
        client.rebalance("other")
    with pytest.raises(NotFound):
        client.balance("other")
    with pytest.raises(Forbidden):
        service.client(client.create_token("reader", "reader")).rebalance("etl")
    assert client.get_layer("etl", "oncall").version == 0


def test_the_auto_scaler_may_deal_key_groups_in_its_own_layer(
    service: RunningJobService, client: JobClient, cell: Cell
) -> None:
    """1. Its token asks for the ranges as a person would. 2. It writes ranges of its own. Neither touches `oncall`."""
    client.put_job("etl", {**CONFIG, "task_count": 2})
    report(cell, SKEWED)
    scaler = service.client(client.create_token("scaler", "scaler"))
    assert scaler.rebalance("etl", reason="decision 7").written.layer == "scaler"
    assert client.get_layer("etl", "scaler").config == {"key_group_bounds": [1]}
    scaler.patch_layer("etl", "scaler", {"key_group_bounds": [2]}, if_match=1, expires_in_seconds=None)
    assert client.get_job("etl").config["key_group_bounds"] == [2]
    assert client.get_layer("etl", "oncall").version == 0


@pytest.mark.parametrize(
    "told",
    [
        pytest.param({"age": "11 minutes"}, id="reported long ago"),
        pytest.param({"state": "crashed"}, id="by a task that does not run"),
        pytest.param({"seconds": 59.0}, id="over too short a time"),
    ],
)
def test_what_counts_as_unknown(client: JobClient, cell: Cell, told: dict[str, object]) -> None:
    """The other half is known, and stands for it."""
    client.put_job("etl", {**CONFIG, "task_count": 2})
    report(cell, SKEWED[:4])
    report(cell, (1000.0,) * 4, first=4, **told)  # type: ignore[arg-type]
    found = client.balance("etl")
    assert found.records_per_second == [*SKEWED[:4], None, None, None, None]
    assert (found.bounds, found.gain) == ([4], 0.0), "four key groups of 25 a second each"


def test_another_size_leaves_bounds_behind_and_its_ranges_may_be_measured_too(client: JobClient, cell: Cell) -> None:
    """1. Two tasks are rebalanced. 2. Four tasks: the bounds are ignored, and plans and `explain` say so. 3. Four tasks
    by measured traffic. 4. Dropping the field brings even ranges back."""
    client.put_job("etl", {**CONFIG, "task_count": 2})
    report(cell, SKEWED)
    client.rebalance("etl")
    (change, _) = sorted(client.plan("etl", {"task_count": 4}).fields, key=lambda field: field.field)
    assert (change.field, change.old, change.new, change.kind) == ("key_group_bounds", [1], None, "rescale")
    client.rescale("etl", 4)
    assert client.get_job("etl").config["key_group_bounds"] is None
    assert {leaf.field: leaf.ignored for leaf in client.explain("etl").leaves if leaf.ignored} == {
        "key_group_bounds": "for 2 tasks, and the job has 4: ranges are even"
    }
    assert client.plan("etl", {"priority": 3}).kind == "none", "it never ran, and ignored bounds are no change"
    assert [field.field for field in client.plan("etl", {"priority": 3}).fields] == ["priority"]
    client.rescale("etl", 4, balance=True)
    assert client.get_job("etl").config["key_group_bounds"] == [1, 4, 6]
    client.patch_layer("etl", "oncall", {"key_group_bounds": None}, if_match=3)
    assert client.get_job("etl").config["key_group_bounds"] is None


def test_a_balanced_rescale_needs_measurements_and_key_groups(client: JobClient, cell: Cell) -> None:
    client.put_job("etl", CONFIG)
    with pytest.raises(Conflict) as refused:
        client.rescale("etl", 4, balance=True)
    assert refused.value.rule == "measured"
    report(cell, SKEWED)
    with pytest.raises(InvalidConfig) as wrong:
        client.rescale("etl", 9, balance=True)
    assert (wrong.value.field, wrong.value.rule) == ("task_count", "key_groups")
    assert client.rescale("etl", 1, balance=True).version == 1


def test_the_command_shows_both_sides_and_the_ranges_go_through_the_plan(
    client: JobClient, cell: Cell, shell: Shell
) -> None:
    """1. A dry run shows what would be done. 2. The command does it: the ranges go through the whole plan."""
    client.put_job("etl", {**CONFIG, "task_count": 2})
    cell.rounds(1)
    cell.do("DELETE FROM tasks")
    report(cell, SKEWED)
    said = shell("rebalance", "etl", "--dry-run").ok()
    assert "8 of 8 key groups is known" in said
    assert "redistribute" in said
    assert client.get_layer("etl", "oncall").version == 0
    assert "patch etl oncall: revision " in shell("rebalance", "etl", "--reason", "hot", "--no-wait").ok()
    cell.rounds(6)
    assert client.get_job("etl").generation == 2
    moved, sealed = (ask.request for ask in cell.containers.asked)
    assert isinstance(moved, RedistributionRequest)
    assert isinstance(sealed, SealRequest)
    assert (moved.source.ranges, moved.target.ranges) == (((0, 4), (4, 8)), ((0, 1), (1, 8)))
    assert sealed.layout.ranges == moved.source.ranges


def test_the_command_says_that_too_little_is_known(client: JobClient, shell: Shell) -> None:
    client.put_job("etl", CONFIG)
    assert "the traffic of too few key groups is known" in shell("rebalance", "etl", "--dry-run").ok()
    assert "of only 0 of 8 key groups is known" in shell("rebalance", "etl").refusal()
