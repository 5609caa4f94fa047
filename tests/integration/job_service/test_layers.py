"""Layers of a job over HTTP: compare-and-swap, merge patches, validation of the merge, history, revert, expiry."""

from __future__ import annotations

import html
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from threading import Barrier

import httpx
import pytest
from sqlalchemy import text

from penstock.config.basis import merge_basis
from penstock.config.validate import check_merged
from penstock.control.errors import Conflict, InvalidConfig, NotFound, VersionConflict
from penstock.store.engine import CHANGED_EXPECTED, listen, transaction
from penstock.wire.job_client import JobClient
from penstock.wire.jobs import BatchAction, BatchWrite
from penstock.wire.layers import LayerAdd
from services.job_service.store.layers import all_layers
from tests.support import calls
from tests.support.cli.shell import Shell
from tests.support.job_service.service import CONFIG, RunningJobService
from tests.support.state_syncer.cell import Cell
from tests.support.store.database import address_of

KEYS_OF_A_PROBLEM = {"type", "title", "status", "detail"}


def test_a_change_and_the_way_back(client: JobClient) -> None:
    """1. An override hides the base. 2. A patch adds to it and drops a key. 3. Dropping it brings the base back.
    4. A revert makes it again. Each write takes the next version and a higher revision, and is in the history."""
    created = client.put_job("etl", CONFIG, reason="new")
    put = client.put_layer("etl", "oncall", {"task_count": 4, "priority": 7}, if_match=0, reason="lag")
    assert (put.version, client.get_job("etl").config["task_count"]) == (1, 4)
    patched = client.patch_layer("etl", "oncall", {"priority": None, "labels": {"why": "lag"}}, if_match=1)
    assert client.get_layer("etl", "oncall").config == {"task_count": 4, "labels": {"why": "lag"}}
    dropped = client.drop_layer("etl", "oncall", if_match=2, reason="over")
    assert client.get_job("etl").config["task_count"] == 1
    assert (client.get_layer("etl", "oncall").config, client.get_layer("etl", "oncall").version) == (None, 3)
    reverted = client.revert_layer("etl", "oncall", 1, if_match=3)
    assert client.get_layer("etl", "oncall").config == {"task_count": 4, "priority": 7}
    entries = client.history("etl").entries
    assert [(entry.action, entry.layer, entry.version, entry.revision) for entry in reversed(entries)] == [
        ("create", "base", 1, created.revision),
        ("put", "oncall", 1, put.revision),
        ("patch", "oncall", 2, patched.revision),
        ("drop", "oncall", 3, dropped.revision),
        ("revert", "oncall", 4, reverted.revision),
    ]
    assert [entry.revision for entry in reversed(entries)] == sorted({entry.revision for entry in entries})
    assert {entry.author for entry in entries} == {"admin"}
    assert (entries[1].old, entries[1].new, entries[1].reason) == (
        {"task_count": 4, "labels": {"why": "lag"}},
        None,
        "over",
    )


def test_what_the_layers_merge_to_is_stored_with_each_write_of_a_layer(
    client: JobClient, service: RunningJobService
) -> None:
    """1. Written with a put, a patch and a drop, complete, at the write's revision. 2. A restart is no such write."""
    complete = check_merged(CONFIG).model_dump(mode="json")
    created = client.put_job("etl", CONFIG)
    assert stored_merge(service) == (created.revision, complete)
    put = client.put_layer("etl", "oncall", {"priority": 7}, if_match=0)
    assert stored_merge(service) == (put.revision, complete | {"priority": 7})
    patched = client.patch_layer("etl", "oncall", {"priority": 8}, if_match=1)
    assert stored_merge(service) == (patched.revision, complete | {"priority": 8})
    dropped = client.drop_layer("etl", "oncall", if_match=2)
    assert stored_merge(service) == (dropped.revision, complete)
    assert client.restart("etl").revision > dropped.revision
    assert stored_merge(service) == (dropped.revision, complete)


def stored_merge(service: RunningJobService) -> tuple[int, dict[str, object]]:
    with transaction(service.engine) as connection:
        row = connection.execute(text("SELECT revision, config, basis FROM expected_configs")).one()
        assert row.basis == merge_basis(all_layers(connection))
    return row.revision, row.config


def test_a_layer_can_be_read_as_of_any_revision(client: JobClient) -> None:
    client.put_job("etl", CONFIG)
    first = client.put_layer("etl", "oncall", {"priority": 1}, if_match=0)
    client.put_job("other", CONFIG)
    client.put_layer("etl", "oncall", {"priority": 2}, if_match=1)
    past = client.get_layer("etl", "oncall", revision=first.revision + 1)
    assert (past.config, past.version) == ({"priority": 1}, 1)
    with pytest.raises(NotFound):
        client.get_layer("etl", "oncall", revision=first.revision - 1)


def test_a_stale_version_is_refused_with_the_current_one(service: RunningJobService, client: JobClient) -> None:
    client.put_job("etl", CONFIG)
    client.put_layer("etl", "oncall", {"priority": 1}, if_match=0)
    with pytest.raises(VersionConflict) as refused:
        client.put_layer("etl", "oncall", {"priority": 2}, if_match=0)
    assert refused.value.current_version == 1
    response = _put(service, "etl/layers/oncall", {"config": {}}, {"If-Match": '"0"'})
    assert response.status_code == 409
    assert response.headers["content-type"] == "application/problem+json"
    assert response.json().keys() == KEYS_OF_A_PROBLEM | {"rule", "current_version"}
    assert client.get_layer("etl", "oncall").config == {"priority": 1}


def test_a_write_needs_if_match(service: RunningJobService, client: JobClient) -> None:
    client.put_job("etl", CONFIG)
    response = _put(service, "etl/layers/oncall", {"config": {}})
    assert (response.status_code, response.json()["field"], response.json()["rule"]) == (428, "If-Match", "required")
    assert response.json()["detail"].endswith('in its double quotes, such as If-Match: "0"')
    bare = _put(service, "etl/layers/oncall", {"config": {}}, {"If-Match": "0"})
    assert (bare.status_code, bare.json()["detail"]) == (
        422,
        'header.if-match: it must be a version in double quotes, such as "3"',
    )
    page = httpx.get(f"{service.url}/docs").text
    assert html.escape("curl -H 'If-Match: \"3\"'") in page
    assert client.get_layer("etl", "oncall").version == 0


@pytest.mark.parametrize(
    ("layer", "config", "field", "rule"),
    [
        ("oncall", {"task_count": 9}, "task_count", "key_groups"),
        ("oncall", {"task_count": "2"}, "task_count", "int_type"),
        ("oncall", {"taskcount": 2}, "taskcount", "unknown_field"),
        ("oncall", {"owner": None}, "owner", "null_in_layer"),
        ("scaler", {"owner": "eve"}, "owner", "layer_may_not_set"),
    ],
)
def test_what_would_make_the_job_invalid_is_refused_with_field_and_rule(
    client: JobClient, layer: str, config: dict[str, object], field: str, rule: str
) -> None:
    before = client.put_job("etl", CONFIG).revision
    with pytest.raises(InvalidConfig) as refused:
        client.put_layer("etl", layer, config, if_match=0)
    assert (refused.value.field, refused.value.rule) == (field, rule)
    assert client.get_job("etl").revision == before


def test_a_lower_layer_is_checked_together_with_the_upper_ones(client: JobClient) -> None:
    """The base alone would be good, but the override above it would not be, so the base is refused."""
    client.put_job("etl", CONFIG)
    client.put_layer("etl", "oncall", {"task_count": 8}, if_match=0)
    smaller = {**CONFIG, "max_task_count": 4}
    with pytest.raises(InvalidConfig) as refused:
        client.put_job("etl", smaller)
    assert refused.value.field == "task_count"


def test_of_many_rivals_with_one_version_one_wins_each_time(service: RunningJobService, client: JobClient) -> None:
    client.put_job("etl", CONFIG)
    rivals = [service.client() for _ in range(4)]
    all_have_read = Barrier(len(rivals))

    def add_one(rival: JobClient) -> int:
        """Reads and writes until 3 writes went through, the first once all have read; the number of conflicts."""
        done = conflicts = 0
        while done < 3:
            layer = rival.get_layer("etl", "oncall")
            count = 1 + (layer.config or {}).get("priority", 0)
            if done == conflicts == 0:
                all_have_read.wait(30)
            try:
                rival.put_layer("etl", "oncall", {"priority": count}, if_match=layer.version)
                done += 1
            except VersionConflict:
                conflicts += 1
        return conflicts

    with ThreadPoolExecutor(len(rivals)) as pool:
        conflicts = sum(pool.map(add_one, rivals))
    layer = client.get_layer("etl", "oncall")
    assert (layer.config, layer.version) == ({"priority": 12}, 12)
    assert conflicts >= len(rivals) - 1
    entries = client.history("etl", layer="oncall").entries
    assert [entry.version for entry in entries] == list(range(12, 0, -1))
    assert [entry.revision for entry in entries] == sorted((entry.revision for entry in entries), reverse=True)
    for rival in rivals:
        rival.close()


def test_writers_of_different_layers_never_conflict(service: RunningJobService, client: JobClient) -> None:
    client.put_job("etl", CONFIG)

    def write(layer: str) -> int | None:
        with service.client() as writer:
            for version in range(10):
                last = writer.put_layer("etl", layer, {"priority": version}, if_match=version)
        return last.version

    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(write, ["provisioner", "scaler", "oncall"])) == [10, 10, 10]


def test_versions_go_on_over_deletion_and_re_creation(service: RunningJobService, client: JobClient) -> None:
    client.put_job("etl", CONFIG)
    client.put_layer("etl", "oncall", {"priority": 1}, if_match=0)
    client.delete_job("etl")
    with transaction(service.engine) as connection:
        connection.execute(text("DELETE FROM jobs WHERE deleting"))  # as the State Syncer forgets
    assert client.put_job("etl", CONFIG, create_only=True).version == 2
    assert client.get_layer("etl", "oncall").version == 0
    assert client.put_layer("etl", "oncall", {"priority": 1}, if_match=0).version == 2
    assert client.revert_layer("etl", "oncall", 1, if_match=2).version == 3


def test_an_override_expires_by_default_unless_asked_otherwise(client: JobClient) -> None:
    client.put_job("etl", CONFIG)
    now = datetime.now(UTC)
    by_default = client.put_layer("etl", "oncall", {"priority": 1}, if_match=0).expires_at
    assert by_default is not None
    assert abs(by_default - now - timedelta(days=1)) < timedelta(minutes=1)
    asked = client.put_layer("etl", "oncall", {"priority": 2}, if_match=1, expires_in_seconds=60).expires_at
    assert asked is not None
    assert asked < now + timedelta(minutes=2)
    assert client.patch_layer("etl", "oncall", {"priority": 3}, if_match=2).expires_at == asked
    assert client.put_layer("etl", "oncall", {"priority": 4}, if_match=3, expires_in_seconds=None).expires_at is None
    assert client.put_layer("etl", "scaler", {"priority": 4}, if_match=0).expires_at is None


def test_a_layer_that_goes_back_to_a_version_ends_as_that_one(client: JobClient, service: RunningJobService) -> None:
    """1. As long as then, where that end has passed; a later patch does not count. 2. At the same time, where it
    is still to come. 3. Never, as it was. 4. As asked. 5. In a batch, too."""

    def left(expires_at: datetime | None) -> float | None:
        return None if expires_at is None else round((expires_at - datetime.now(UTC)).total_seconds() / 60)

    def revert(version: int, **given: int) -> datetime | None:
        present = client.get_layer("etl", "oncall").version
        return client.revert_layer("etl", "oncall", version, if_match=present, **given).expires_at  # type: ignore[arg-type]

    client.put_job("etl", CONFIG)
    client.put_layer("etl", "oncall", {"priority": 3}, if_match=0, expires_in_seconds=None)
    with transaction(service.engine) as connection:
        connection.execute(text(_PAST))
    assert left(revert(11)) == 120
    assert left(revert(12)) == 120
    assert left(revert(13)) == 30
    assert revert(1) is None
    assert left(revert(1, expires_in_seconds=600)) == 10
    present = client.get_layer("etl", "oncall").version
    write = BatchWrite(action=BatchAction.REVERT, job="etl", layer="oncall", if_match=present, version=11)
    [done] = client.batch([write])
    assert done.written is not None
    assert (left(done.written.expires_at), client.get_layer("etl", "oncall").config) == (120, {"priority": 11})


_PAST = """
    INSERT INTO history (job, layer, version, revision, action, author, at, new, expires_at) VALUES
    ('etl', 'oncall', 11, 1, 'put', 'ann', now() - interval '3 h', '{"priority": 11}', now() - interval '1 h'),
    ('etl', 'oncall', 12, 1, 'patch', 'ann', now() - interval '61 min', '{"priority": 12}', now() - interval '1 h'),
    ('etl', 'oncall', 13, 1, 'put', 'ann', now() - interval '3 h', '{"priority": 13}', now() + interval '30 min')
"""
"""A write for two hours, a patch just before their end, and a write whose end is still to come."""


def test_the_command_says_when_a_layer_that_goes_back_ends(
    client: JobClient, service: RunningJobService, shell: Shell
) -> None:
    """A layer without an end is worth a word where writes end by default, or where it had one. So is an end that had
    passed, and lies as far ahead again."""
    client.put_job("etl", CONFIG)
    client.put_layer("etl", "oncall", {"priority": 1}, if_match=0, expires_in_seconds=None)
    client.put_layer("etl", "oncall", {"priority": 2}, if_match=1, expires_in_seconds=7200)
    said = shell("revert", "etl", "oncall", "1").ok()
    assert said.endswith("version 3\nit never ends, as at version 1: `penstock override etl --drop` ends it\n")
    assert ", ends in 1h59m, at " in shell("revert", "etl", "oncall", "2").ok()
    assert ", ends in 29m, at " in shell("revert", "etl", "oncall", "1", "--for", "30m").ok()
    said = shell("revert", "etl", "oncall", "2", "--for", "never").ok()
    assert said.endswith("\nit never ends: `penstock override etl --drop` ends it\n")
    assert "never ends" not in shell("revert", "etl", "oncall", "0").ok()
    with transaction(service.engine) as connection:
        connection.execute(text(_PAST))
    assert shell("revert", "etl", "oncall", "11").ok().endswith("\nversion 11 ended 1h ago: it lasts as long again\n")
    assert "as long again" not in shell("revert", "etl", "oncall", "13").ok()
    assert "as long again" not in shell("revert", "etl", "oncall", "11", "--for", "1h").ok()


def test_the_command_says_of_any_layer_that_it_never_ends_where_that_matters(client: JobClient, shell: Shell) -> None:
    """1. `canary` ends by default, 2. `scaler` had an end. 3. `provisioner` has none, as always."""
    client.put_job("etl", CONFIG)
    client.add_layer(LayerAdd(name="canary", rank=150, default_expiry_seconds=600))
    client.put_layer("etl", "canary", {"priority": 1}, if_match=0, expires_in_seconds=None)
    client.put_layer("etl", "canary", {"priority": 2}, if_match=1, expires_in_seconds=None)
    said = shell("revert", "etl", "canary", "1").ok()
    assert said.endswith("\nit never ends, as at version 1: `penstock layers drop etl canary` ends it\n")
    for layer, more in (("scaler", {"expires_in_seconds": 7200}), ("provisioner", {})):
        client.put_layer("etl", layer, {"priority": 1}, if_match=0)
        client.put_layer("etl", layer, {"priority": 2}, if_match=1, **more)
        said = shell("revert", "etl", layer, "1").ok()
        assert ("it never ends, as at version 1: " in said) is (layer == "scaler")


def test_a_layer_added_as_a_row_works_like_the_others(client: JobClient) -> None:
    """`canary` between provisioner and scaler: no code knows its name."""
    client.put_job("etl", CONFIG)
    client.add_layer(LayerAdd(name="canary", rank=150, default_expiry_seconds=600))
    assert [layer.name for layer in client.layers()] == [
        "base",
        "provisioner",
        "canary",
        "scaler",
        "oncall",
        "rollback",
    ]
    client.put_layer("etl", "provisioner", {"priority": 1, "trigger_interval_seconds": 1}, if_match=0)
    client.put_layer("etl", "canary", {"priority": 2, "package": {"version": "7"}}, if_match=0)
    client.put_layer("etl", "scaler", {"trigger_interval_seconds": 3}, if_match=0)
    config = client.get_job("etl").config
    assert (config["priority"], config["trigger_interval_seconds"], config["package"]["version"]) == (2, 3, "7")
    leaf = next(leaf for leaf in client.explain("etl").leaves if leaf.field == "priority")
    assert (leaf.layer, [hidden.layer for hidden in leaf.hides]) == ("canary", ["provisioner", "default"])
    with pytest.raises(Conflict):
        client.add_layer(LayerAdd(name="other", rank=150))


def test_a_job_that_has_run_cannot_change_its_key_groups(service: RunningJobService, client: JobClient) -> None:
    """Before its first commit anything may change; afterwards what the checkpoints are laid out by may not."""
    client.put_job("etl", CONFIG)
    inputs = {"flights": {**CONFIG["inputs"]["flights"], "key_groups": 16}}
    client.put_job("etl", {**CONFIG, "inputs": inputs})
    with transaction(service.engine) as connection:
        connection.execute(
            text(
                "INSERT INTO running (job, config, revision, generation, restarts, commit_number, leader_epoch)"
                " SELECT 'etl', config, 2, 1, 0, 1, 1 FROM expected_configs WHERE job = 'etl'"
            )
        )
    with pytest.raises(InvalidConfig) as refused:
        client.put_job("etl", CONFIG)
    assert (refused.value.field, refused.value.rule) == ("inputs.flights.key_groups", "forbidden_change")
    assert client.put_layer("etl", "oncall", {"priority": 1}, if_match=0).version == 1


def test_a_folder_keeps_the_form_of_its_files(client: JobClient, cell: Cell) -> None:
    """1. A job has written files of one form. 2. Another form, by itself or by a layer, is refused, and its plan says
    so. 3. With another folder it is accepted."""
    output = {"type": "files", "path": "/data/out", "format": "parquet"}
    client.put_job("etl", {**CONFIG, "output": output})
    cell.rounds(2)
    for write in (
        lambda: client.put_job("etl", {**CONFIG, "output": {**output, "format": "json"}}),
        lambda: client.put_layer("etl", "oncall", {"output": {"format": "csv"}}, if_match=0),
    ):
        with pytest.raises(InvalidConfig, match=r"give another output\.path, too") as refused:
            write()
        assert (refused.value.field, refused.value.rule) == ("output.format", "forbidden_change")
    planned = client.plan("etl", {"output": {"format": "json"}}, verify=False)
    assert (planned.allowed, [each.field for each in planned.fields]) == (False, ["output.format"])
    assert client.get_job("etl").config["output"]["format"] == "parquet"
    client.put_job("etl", {**CONFIG, "output": {**output, "format": "json", "path": "/data/json"}})
    cell.rounds(8)
    assert cell.running("etl")["config"]["output"]["format"] == "json"


def test_a_write_wakes_the_listeners(client: JobClient, service: RunningJobService) -> None:
    with listen(address_of(service.engine), (CHANGED_EXPECTED,)) as connection:
        client.put_job("etl", CONFIG)
        woken = [notification.payload for notification in connection.notifies(timeout=10, stop_after=1)]
    assert woken == ["etl"]


def _put(
    service: RunningJobService, path: str, body: dict[str, object], headers: dict[str, str] | None = None
) -> httpx.Response:
    given = {"Authorization": f"Bearer {service.admin}"} | (headers or {})
    return calls.put(f"{service.url}/v1/jobs/{path}", json=body, headers=given)


def test_each_field_of_a_layer_is_explained_by_the_write_that_set_it(
    service: RunningJobService, client: JobClient
) -> None:
    client.put_job("etl", CONFIG, verify=False)
    for version, (author, change) in enumerate([("ann", {"priority": 1, "task_count": 2}), ("bob", {"priority": 2})]):
        with service.client(client.create_token(author, "oncall")) as hers:
            hers.patch_layer("etl", "oncall", change, if_match=version, reason=f"{author}'s", verify=False)
    leaves = {leaf.field: leaf for leaf in client.explain("etl").leaves if leaf.layer == "oncall"}
    seen = {field: (leaf.author, leaf.reason, leaf.version) for field, leaf in leaves.items()}
    assert seen == {"priority": ("bob", "bob's", 2), "task_count": ("ann", "ann's", 1)}
    assert leaves["priority"].expires_at == leaves["task_count"].expires_at, "a layer ends as a whole"
