"""What travels to a host: with a command only what its job uses, in the environment nothing that is secret."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from penstock.config.keygroups import KeyGroupRange
from penstock.config.model import JobConfig
from penstock.control.errors import BrokenTask
from penstock.spark.access import with_access
from penstock.spark.channel import COMMANDS, Access, Prepare, RunHostTask, Start, Stop
from penstock.spark.paths import require_allowed
from penstock.spark.query import secrets_of
from penstock.spark.settings import SparkSettings
from penstock.tasks.host_task import HostTask
from penstock.tasks.redistribution import Layout, RedistributionRequest
from penstock.tasks.sinks import SinkRequest
from penstock.tasks.spec import TaskSpec
from tests.support.config.jobs import job

POSTGRES = {"type": "postgres", "table": "t", "connection": "mine"}
PYTHON = {
    "query": {"python": "m:f"},
    "package": {"name": "p", "version": "1"},
    "secrets": {"api": "api-key", "other": "absent"},
}
HOST_ONLY = ("PATH", "LANG", "PYTHONPATH", "LC_ALL")


def config_of(**changes: Any) -> JobConfig:
    config = {**job(), **changes}
    return JobConfig.model_validate(config)


def spec_of(config: JobConfig) -> TaskSpec:
    part = KeyGroupRange(0, 1)
    return TaskSpec(job="j", index=0, revision=1, generation=1, restarts=0, key_groups=part, config=config)


@pytest.fixture
def settings(tmp_path: Path) -> SparkSettings:
    (tmp_path / "api-key").write_text("k-123456\n")
    (tmp_path / "unused").write_text("never-sent")
    (tmp_path / "pg").write_text("p/w@rd")
    urls = {"mine": "postgresql://u:${secret:pg}@h/db", "of-others": "postgresql://o:x@h/db"}
    return SparkSettings(checkpoint_root="/ck", connections=urls, secrets_root=tmp_path)


def test_a_command_brings_what_its_job_names_and_nothing_else(settings: SparkSettings) -> None:
    sql, python = config_of(output=POSTGRES), config_of(**PYTHON)
    start = with_access(Start(id=1, spec=spec_of(sql), epoch=1), settings)
    assert isinstance(start, Start)
    assert start.access == Access(connections={"mine": "postgresql://u:p%2Fw%40rd@h/db"})
    start = with_access(Start(id=1, spec=spec_of(python), epoch=1), settings)
    assert isinstance(start, Start)
    assert start.access == Access(secrets={"api-key": "k-123456"})
    ahead = with_access(Prepare(id=1, spec=spec_of(python)), settings)
    assert isinstance(ahead, Prepare)
    assert ahead.access == start.access
    assert with_access(Start(id=1, spec=spec_of(config_of()), epoch=1), settings) == Start(
        id=1, spec=spec_of(config_of()), epoch=1
    )
    assert with_access(Stop(id=2, task_id="j/0"), settings) == Stop(id=2, task_id="j/0")


def test_host_tasks_bring_it_too(settings: SparkSettings) -> None:
    sink = SinkRequest(job="j", revision=1, config=config_of(output=POSTGRES))
    layouts = [
        Layout(generation=number, config=config_of(output=POSTGRES, **PYTHON), ranges=(KeyGroupRange(0, 1),))
        for number in (1, 2)
    ]
    move = RedistributionRequest(job="j", source=layouts[0], target=layouts[1])
    for request, names in ((sink, set()), (move, {"api-key"})):
        command = RunHostTask(id=1, task=HostTask(leader_epoch=1, request=request))
        sent = with_access(command, settings)
        assert isinstance(sent, RunHostTask)
        assert (set(sent.access.connections), set(sent.access.secrets)) == ({"mine"}, names)


def test_what_travels_survives_the_pipe_and_is_in_no_repr(settings: SparkSettings) -> None:
    start = with_access(Start(id=1, spec=spec_of(config_of(**PYTHON)), epoch=1), settings)
    assert COMMANDS.validate_json(start.model_dump_json()) == start
    assert "k-123456" not in repr(start)
    assert "postgresql" not in repr(settings)


def test_the_code_gets_values_by_its_own_names_or_the_task_is_broken(settings: SparkSettings) -> None:
    mine = settings.for_job({}, {"api-key": "k-123456"})
    good = config_of(**{**PYTHON, "secrets": {"api": "api-key"}})
    assert secrets_of(good, mine) == {"api": "k-123456"}
    with pytest.raises(BrokenTask, match=r"secrets\.other: the container has no secret absent"):
        secrets_of(config_of(**PYTHON), mine)
    with pytest.raises(BrokenTask, match="no secret api-key"):
        secrets_of(good, settings)


def test_the_environment_of_a_host_is_an_allow_list(
    settings: SparkSettings, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    secret = {"PENSTOCK_DATABASE_URL": "x", "PENSTOCK_SCALER_TOKEN": "x", "AWS_SECRET_ACCESS_KEY": "x", "NEW_ONE": "x"}
    for name, value in {**secret, **dict.fromkeys(HOST_ONLY, "kept"), "AWS_REGION": "eu"}.items():
        monkeypatch.setenv(name, value)
    chosen = settings.model_copy(update={"host_environment": ("AWS_REGION",), "container_folder": tmp_path})
    found = chosen.to_environment()
    assert {name: found.get(name) for name in HOST_ONLY} == dict.fromkeys(HOST_ONLY, "kept")
    assert not secret.keys() & found.keys()
    assert (found["AWS_REGION"], found["PENSTOCK_CONTAINER_FOLDER"]) == ("eu", str(tmp_path))
    text = " ".join(found.values())
    assert not any(url in text for url in settings.connections.values())
    assert "PENSTOCK_SECRETS_ROOT" not in found


def test_a_link_that_leads_outside_the_roots_is_refused(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "private"
    (root / "a").mkdir(parents=True)
    outside.mkdir()
    (root / "link").symlink_to(outside)
    (tmp_path / "other-name").symlink_to(root)
    for path in (root / "a", root / "new" / "b"):
        require_allowed("output.path", str(path), (str(root),))
    require_allowed("output.path", f"{tmp_path}/other-name/a", (f"{tmp_path}/other-name",))
    for path in (root / "link" / "admin.token", root / "link", root / "link" / ".." / "a", root):
        with pytest.raises(BrokenTask, match=r"output\.path: a job may not use"):
            require_allowed("output.path", str(path), (str(root),))
    assert os.path.exists(root / "link")


def test_the_connections_of_side_outputs_travel_too() -> None:
    sides = {"a": {"output": POSTGRES}, "b": {"output": {**POSTGRES, "connection": "absent"}}}
    config = config_of(side_outputs=sides)
    settings = SparkSettings(checkpoint_root="", kafka_bootstrap="", connections={"mine": "url", "other": "secret"})
    sent = with_access(Start(id=1, spec=spec_of(config), epoch=1), settings)
    assert isinstance(sent, Start)
    assert dict(sent.access.connections) == {"mine": "url"}
