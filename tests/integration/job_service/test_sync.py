"""`GET /v1/jobs/{job}/sync`: which fields a change is about, worked out when somebody looks."""

from __future__ import annotations

from typing import Any

from penstock.wire.job_client import JobClient
from services.state_syncer.decide.budget import Budget
from services.state_syncer.decide.progress import Step
from tests.support.job_service.service import CONFIG
from tests.support.state_syncer.cell import Cell
from tests.support.state_syncer.containers import waits_at


def shown(client: JobClient) -> tuple[str, str | None, list[str] | None]:
    """The state, and the kind and the fields of the change."""
    sync = client.sync("etl")
    return sync.state, sync.change_kind, sync.changed_fields


def asked_for(client: JobClient, **fields: Any) -> None:
    client.patch_layer("etl", "oncall", fields, if_match=client.get_layer("etl", "oncall").version)


def test_the_fields_of_live_and_restart_changes_until_they_are_synced(client: JobClient, cell: Cell) -> None:
    """1. A new job has no change. 2. A live change is asked for, then synced; so is a restart. Once they are synced,
    nothing differs any more. 3. A write that changes nothing is about no field."""
    client.put_job("etl", CONFIG)
    cell.rounds(1)
    assert shown(client) == ("synced", "none", [])
    changes: list[tuple[str, dict[str, Any]]] = [
        ("live", {"priority": 3, "slo": {"max_lag_seconds": 30}}),
        ("restart", {"trigger_interval_seconds": 2, "priority": 4}),
        ("none", {"priority": 4}),
    ]
    for (kind, fields), names in zip(
        changes,
        (["priority", "slo.max_lag_seconds"], ["priority", "trigger_interval_seconds"], []),
        strict=True,
    ):
        asked_for(client, **fields)
        assert shown(client) == ("pending", kind, names)
        cell.rounds(1)
        assert shown(client) == ("synced", "none", []), "nothing is asked for"
        assert client.get_job("etl").running_revision == client.get_job("etl").revision
        assert cell.sync("etl")["changed_fields"] is None, "the State Syncer compared no fields"


def test_the_fields_of_a_change_that_waits_for_room_and_of_one_that_goes_on(client: JobClient, cell: Cell) -> None:
    """1. There is no room for a rescale: it waits, with its fields. 2. There is: it goes on, with the same. 3. A write
    meanwhile does not hide them."""
    client.put_job("etl", CONFIG)
    cell.rounds(1)
    room, cell.budget = cell.budget, Budget(share=0.0, count=0, rescales=0, copies=0)
    cell.restart()
    asked_for(client, task_count=4, priority=2)
    cell.rounds(2)
    assert shown(client) == ("queued", "rescale", ["task_count"])
    cell.budget = room
    cell.restart()
    cell.rounds(2)
    assert shown(client) == ("rescaling", "rescale", ["task_count"])
    asked_for(client, priority=3)
    assert shown(client) == ("rescaling", "rescale", ["task_count"])


def test_a_job_that_waits_for_room_is_told_who_is_disrupted(client: JobClient, cell: Cell) -> None:
    """1. One job may be disrupted, and a rescale of `etl` does: another that is copied is told so. 2. A stopped one is
    rescaled, and is not named."""
    for name in ("etl", "late", "down"):
        client.put_job(name, CONFIG)
    cell.rounds(1)
    cell.budget = Budget(share=0.1)
    cell.restart()
    cell.containers.works = waits_at(Step.REDISTRIBUTE)
    for name, fields in (("etl", {}), ("down", {"desired_state": "stopped"}), ("late", {})):
        client.patch_layer(name, "base", {"task_count": 4, **fields}, if_match=client.get_layer(name, "base").version)
        cell.rounds(4)
    waits = client.sync("late")
    assert waits.state == "rescaling"
    assert waits.detail == ("copy_state: waiting: no more than 1 job may be disrupted at once. 1 is disrupted now: etl")
    assert "disrupted now" not in (client.sync("etl").detail or "")
    assert (cell.step("etl"), cell.step("down")) == ("redistribute", "redistribute")
