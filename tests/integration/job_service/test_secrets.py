"""What a job may name: secrets that list it, and paths below the cell's roots."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.control.errors import Conflict, Forbidden, InvalidConfig, NotFound, UserError
from penstock.wire.job_client import JobClient
from tests.support.job_service.service import CONFIG, RunningJobService, job_service
from tests.support.state_syncer.cell import Cell

PYTHON = {**CONFIG, "query": {"python": "m:f"}, "package": {"name": "p", "version": "1"}}


def using(**secrets: str) -> dict[str, Any]:
    return {**PYTHON, "secrets": secrets}


@pytest.fixture
def admin(service: RunningJobService) -> JobClient:
    client = service.client()
    client.put_secret("api-key", ["mine", "team-a.*"])
    return client


def refused(call: Any) -> list[tuple[str, str]]:
    with pytest.raises(UserError) as error:
        call()
    assert isinstance(error.value, InvalidConfig)
    return [(each["field"], each["rule"]) for each in error.value.extra["errors"]]


def test_a_job_may_use_a_secret_that_lists_it(admin: JobClient) -> None:
    for job in ("mine", "team-a.first"):
        assert admin.put_job(job, using(api="api-key")).revision
        assert admin.get_job(job).config["secrets"] == {"api": "api-key"}


@pytest.mark.parametrize("job", ["other", "mine2", "team-b.first", "team-a"])
def test_other_jobs_are_refused_at_the_write_and_in_a_plan(admin: JobClient, job: str) -> None:
    told = [("secrets.api", "may_use_secret"), ("secrets.other", "known_secret")]
    secrets = {"api": "api-key", "other": "nobody-knows"}
    assert refused(lambda: admin.put_job(job, using(**secrets))) == told
    assert refused(lambda: admin.plan(job, using(**secrets), action="put")) == told
    admin.put_job(job, PYTHON)
    assert refused(lambda: admin.patch_layer(job, "oncall", {"secrets": secrets}, if_match=0)) == told


def test_sql_has_no_use_for_secrets(admin: JobClient) -> None:
    assert refused(lambda: admin.put_job("mine", {**CONFIG, "secrets": {"api": "api-key"}})) == [
        ("secrets", "secrets_need_python")
    ]


def test_a_secret_in_use_stays_its_jobs(admin: JobClient) -> None:
    """1. A job uses it. 2. It is neither deleted nor taken from the job, but given to others. 3. Once the job does not
    name it any more, in no layer, it is deleted. 4. Then no job may use it."""
    written = admin.put_job("mine", using(api="api-key"))
    for call in (lambda: admin.delete_secret("api-key"), lambda: admin.put_secret("api-key", ["team-a.*"])):
        with pytest.raises(Conflict, match="used by mine"):
            call()
    admin.put_secret("api-key", ["*"], reason="for all")
    (row,) = admin.secrets()
    assert (row.name, row.jobs, row.author) == ("api-key", ["*"], "admin")
    admin.put_layer("mine", "base", PYTHON, if_match=written.version or 0)
    admin.delete_secret("api-key", reason="leaked")
    with pytest.raises(NotFound, match="there is no secret api-key"):
        admin.delete_secret("api-key")
    assert admin.secrets() == []
    told = [(each.action, each.reason, each.old, each.new) for each in admin.cell_history(subject="api-key").entries]
    first, everybody = {"jobs": ["mine", "team-a.*"]}, {"jobs": ["*"]}
    assert told == [
        ("secret_taken", "leaked", everybody, None),
        ("secret_given", "for all", first, everybody),
        ("secret_given", "", None, first),
    ]
    assert refused(lambda: admin.put_job("mine2", using(api="api-key"))) == [("secrets.api", "known_secret")]


def test_a_secret_is_in_use_as_long_as_a_job_runs_with_it(admin: JobClient, cell: Cell) -> None:
    """1. The job runs with it. 2. The job is to run without it, and does not yet. 3. It does."""
    written = admin.put_job("mine", using(api="api-key"))
    cell.round()
    admin.put_layer("mine", "base", PYTHON, if_match=written.version or 0)
    with pytest.raises(Conflict, match="used by mine"):
        admin.delete_secret("api-key")
    cell.round()
    admin.delete_secret("api-key")


@pytest.mark.parametrize("role", ["reader", "provisioner", "oncall"])
def test_only_admins_say_who_may_use_what(service: RunningJobService, admin: JobClient, role: Any) -> None:
    client = service.client(admin.create_token(f"a-{role}", role))
    for call in (
        lambda: client.put_secret("api-key", ["*"]),
        lambda: client.delete_secret("api-key"),
        lambda: client.secrets(),
    ):
        with pytest.raises(Forbidden):
            call()


STOLEN = {"tables": {"t": {"path": "/cell/${up}/admin.token", "format": "csv"}}, "args": {"up": "outputs/.."}}
OUTSIDE = {"output": {"type": "files", "path": "/etc/cron.d"}}


def test_paths_outside_the_roots_are_refused_at_the_write_and_in_a_plan(database_url: str) -> None:
    with job_service(database_url, path_roots=("/cell/outputs",)) as running:
        client = running.client()
        inside = {**CONFIG, "output": {"type": "files", "path": "/cell/outputs/a"}}
        client.put_job("a", inside)
        for change, field in ((STOLEN, "tables.t.path"), (OUTSIDE, "output.path")):
            told = [(field, "below_path_roots")]
            assert refused(lambda change=change: client.put_job("b", {**CONFIG, **change})) == told
            assert refused(lambda change=change: client.plan("b", {**CONFIG, **change}, action="put")) == told
            assert refused(lambda change=change: client.patch_layer("a", "oncall", change, if_match=0)) == told
        hidden = {"tables": {"t": {"path": "/cell/outputs/t"}}}
        client.patch_layer("a", "oncall", hidden, if_match=0)
        assert refused(
            lambda: client.patch_layer("a", "base", {"args": {"x": "y"}, "output": OUTSIDE["output"]}, if_match=1)
        ) == [("output.path", "below_path_roots")]


def test_a_job_keeps_a_path_that_the_roots_no_longer_allow_and_gets_no_other(database_url: str) -> None:
    """1. The job is written, then roots are set that do not allow its table. 2. It is planned, stopped and changed
    elsewhere. 3. Other paths are refused. 4. So is the first one, once the job has another."""
    other = {"tables": {"t": {"path": "/old/other", "format": "csv"}}}
    with job_service(database_url) as before, job_service(database_url, path_roots=("/cell/outputs",)) as after:
        old, new = before.client(), after.client(before.admin)
        content = {**CONFIG, "tables": {"t": {"path": "/old/t", "format": "csv"}}}
        old.put_job("a", content)
        for version, change in enumerate(({"desired_state": "stopped"}, {"trigger_interval_seconds": 3})):
            new.plan("a", change, action="patch", layer="oncall")
            new.patch_layer("a", "oncall", change, if_match=version)
        told = [("tables.t.path", "below_path_roots")]
        assert refused(lambda: new.patch_layer("a", "base", other, if_match=1)) == told
        assert refused(lambda: new.put_job("b", content)) == told
        assert refused(lambda: new.put_job("a", {**content, "output": OUTSIDE["output"]})) == [
            ("output.path", "below_path_roots")
        ]
        inside = {"tables": {"t": {"path": "/cell/outputs/t"}}}
        new.patch_layer("a", "base", inside, if_match=1)
        assert refused(lambda: new.patch_layer("a", "base", content, if_match=2)) == told
