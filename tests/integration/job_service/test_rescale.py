"""`POST /v1/jobs/{job}/rescale`, what `/sync` shows of its plan, and `penstock rescale`."""

from __future__ import annotations

from functools import partial

import pytest

from penstock.control.errors import Conflict, Forbidden, InvalidConfig, NotFound
from penstock.wire.job_client import JobClient
from services.state_syncer.decide.progress import Step
from tests.support.cli.shell import Shell
from tests.support.control.rounds import rounds_go_on
from tests.support.job_service.service import CONFIG, RunningJobService
from tests.support.state_syncer.cell import Cell
from tests.support.state_syncer.containers import fails_at


@pytest.mark.parametrize(
    ("role", "layer"), [("admin", "oncall"), ("oncall", "oncall"), ("scaler", "scaler"), ("provisioner", "provisioner")]
)
def test_it_writes_the_layer_that_the_caller_may_write(
    service: RunningJobService, client: JobClient, role: str, layer: str
) -> None:
    """1. The layer says something already. 2. A rescale only adds to it, with its reason."""
    client.put_job("etl", CONFIG)
    client.put_layer("etl", layer, {"priority": 1}, if_match=0, expires_in_seconds=None)
    secret = client.create_token("other", role)
    written = service.client(secret).rescale("etl", 4, reason="lag")
    assert (written.layer, written.version) == (layer, 2)
    found = client.get_layer("etl", layer)
    assert (found.config, found.reason, found.author) == ({"priority": 1, "task_count": 4}, "lag", "other")
    assert found.expires_at is None


def test_it_stays_unless_it_is_said_when_it_ends(client: JobClient) -> None:
    """1. A rescale stays. 2. One with an expiry does not. 3. What ends by itself takes no further rescale with it, nor
    does it stay because of one: that must be said. 4. A dropped layer has nothing that could end."""
    client.put_job("etl", CONFIG)
    client.rescale("etl", 4)
    assert client.get_layer("etl", "oncall").expires_at is None
    client.rescale("etl", 2, expires_in_seconds=60)
    assert client.get_layer("etl", "oncall").expires_at is not None
    with pytest.raises(Conflict, match="oncall expires at") as refused:
        client.rescale("etl", 4)
    assert (refused.value.field, refused.value.rule) == ("expires_in_seconds", "given_when_the_layer_expires")
    client.rescale("etl", 4, expires_in_seconds=None)
    assert client.get_layer("etl", "oncall").expires_at is None
    client.rescale("etl", 2, expires_in_seconds=60)
    client.drop_layer("etl", "oncall", if_match=4)
    client.rescale("etl", 4)
    assert client.get_layer("etl", "oncall").expires_at is None


def test_what_was_to_stay_gets_no_expiry_by_another_write(client: JobClient) -> None:
    """1. A rescale stays. 2. A patch with an expiry is refused, and so is a rescale that would end the patch. 3. One
    that says it for the whole layer is done."""
    client.put_job("etl", CONFIG)
    client.rescale("etl", 4)
    with pytest.raises(Conflict, match="oncall also sets task_count, which never expires") as refused:
        client.patch_layer("etl", "oncall", {"priority": 1}, if_match=1, expires_in_seconds=300)
    assert (refused.value.field, refused.value.rule) == ("expires_in_seconds", "whole_layer")
    client.patch_layer("etl", "oncall", {"priority": 1}, if_match=1, expires_in_seconds=None)
    with pytest.raises(Conflict, match="oncall also sets priority"):
        client.rescale("etl", 2, expires_in_seconds=300)
    assert client.rescale("etl", 2, expires_in_seconds=300, whole_layer=True).expires_at is not None


def test_an_override_that_ends_takes_no_rescale_with_it(client: JobClient, shell: Shell) -> None:
    client.put_job("etl", CONFIG)
    shell("rescale", "etl", "3", "--no-wait").ok()
    override = ("override", "etl", '{"priority": 1}', "--reason", "t", "--for", "5m")
    assert "also sets task_count, which never expires" in shell(*override).refusal()
    assert "ends in 4m" in shell(*override, "--whole-layer").ok()
    for asked in ("2m", "never"):
        assert "also sets" in shell("override", "etl", "task_count=2", "--reason", "t", "--for", asked).refusal()
    longer = shell("override", "etl", "task_count=2", "--reason", "t", "--for", "1h").ok()
    assert "all of the layer ends then, also what would have ended in 4m" in longer


def test_what_is_refused(service: RunningJobService, client: JobClient) -> None:
    client.put_job("etl", CONFIG)
    with pytest.raises(NotFound):
        client.rescale("other", 2)
    with pytest.raises(InvalidConfig) as refused:
        client.rescale("etl", 9)
    assert refused.value.field == "task_count"
    with pytest.raises(Forbidden):
        service.client(client.create_token("reader", "reader")).rescale("etl", 2)
    assert client.get_layer("etl", "oncall").version == 0


def test_the_plan_is_shown_while_it_lasts(client: JobClient, cell: Cell) -> None:
    client.put_job("etl", CONFIG)
    cell.rounds(1)
    client.rescale("etl", 4)
    cell.rounds(3)
    job, sync = client.get_job("etl"), client.sync("etl")
    assert (job.state, sync.state, sync.step) == ("rescaling", "rescaling", 5)
    assert sync.plan["steps"][sync.step or 0] == sync.plan["step"] == "redistribute"
    assert (sync.plan["generation"], sync.plan["container"], "config" in sync.plan) == (2, "a", False)
    assert sync.detail == "redistribute: a writes generation 2"
    cell.rounds(3)
    assert (client.get_job("etl").state, client.sync("etl").plan, client.get_job("etl").generation) == (
        "synced",
        None,
        2,
    )
    assert client.plan("etl", {"task_count": 2}).downtime_seconds == 0.0, "the test's clock stands still"


def test_the_command_tells_the_steps_until_the_job_runs(client: JobClient, cell: Cell, shell: Shell) -> None:
    client.put_job("etl", CONFIG)
    cell.rounds(1)
    with rounds_go_on(partial(cell.rounds, 1)):
        said = shell("rescale", "etl", "4", "--reason", "lag").ok().splitlines()
    assert said[0].startswith("patch etl oncall: revision ")
    assert said[-1].endswith("as generation 2")
    assert shell("rescale", "etl", "2", "--no-wait").ok().count("\n") == 1


def test_the_command_waits_for_the_first_batches_when_asked(client: JobClient, cell: Cell, shell: Shell) -> None:
    """1. The plan ends, and no task reports a batch. 2. By default that is the end; with --wait it is awaited."""
    client.put_job("etl", CONFIG)
    cell.rounds(1)
    with rounds_go_on(partial(cell.rounds, 1)):
        shell("rescale", "etl", "4").ok()
        late = shell("rescale", "etl", "2", "--wait", "--timeout", "8s")
    assert (late.code, "as generation 3" in late.out) == (3, True)
    assert "not done after" in late.err


def test_the_command_fails_when_the_plan_was_given_up(client: JobClient, cell: Cell, shell: Shell) -> None:
    client.put_job("etl", CONFIG)
    cell.rounds(1)
    cell.containers.works = fails_at(Step.REDISTRIBUTE)
    with rounds_go_on(partial(cell.rounds, 1)):
        ended = shell("rescale", "etl", "4")
    assert ended.code == 1
    assert "runs as before" in ended.err
    assert "disk full" in ended.err
