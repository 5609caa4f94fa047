"""The client library: its README's example, and what becomes of conflicts and of answers that are lost."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.client import Client, Edited, InvalidConfig, Unavailable, VersionConflict
from penstock.wire.jobs import Written
from tests.support.job_service.service import CONFIG, RunningJobService
from tests.tidy.source import REPOSITORY

README = REPOSITORY / "libs" / "penstock" / "client" / "README.md"


@pytest.fixture
def api(service: RunningJobService) -> Iterator[Client]:
    with Client(service.url, service.admin) as client:
        yield client


@pytest.fixture
def etl(api: Client) -> str:
    api.put_job("etl", CONFIG)
    return "etl"


def test_the_example_of_the_readme_works(
    service: RunningJobService,
    api: Client,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / ".penstock").mkdir()
    (tmp_path / ".penstock" / "admin.token").write_text(f"{service.admin}\n")
    (tmp_path / "job.json").write_text(json.dumps(CONFIG))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PENSTOCK_URL", service.url)
    [example] = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    exec(example, {})
    written, *told = capsys.readouterr().out.splitlines()[-4:]
    assert written.endswith(" ['flights']")
    assert [line.split()[1:3] for line in told] == [["create", "base"], ["patch", "provisioner"], ["patch", "oncall"]]
    assert api.get_layer("flights", "provisioner").config == {"task_count": 4}
    oncall = api.get_layer("flights", "oncall")
    assert oncall.config == {"resources": {"memory_bytes": 2**30}}
    assert oncall.expires_at is not None


def test_an_edit_writes_only_what_changed_and_nothing_when_the_block_raises(api: Client, etl: str) -> None:
    with api.edit(etl, "oncall", reason="x") as content:
        content |= {"priority": 1, "resources": {"cpu_cores": 0.5}}
    assert content.written is not None
    with api.edit(etl, "oncall") as content:
        del content["priority"]
        content["resources"]["cpu_cores"] = 1.0
    assert api.get_layer(etl, "oncall").config == {"resources": {"cpu_cores": 1.0}}
    with api.edit(etl, "oncall") as content:
        content["resources"] = {"cpu_cores": 1.0}
    assert content.written is None

    def edit_and_raise() -> None:
        with api.edit(etl, "oncall") as content:
            content["priority"] = 9
            raise LookupError

    with pytest.raises(LookupError):
        edit_and_raise()
    with pytest.raises(InvalidConfig) as refused, api.edit(etl, "oncall") as content:
        content["task_count"] = 0
    assert refused.value.field == "task_count"
    assert api.get_layer(etl, "oncall").version == 2


def test_nobody_is_overwritten(api: Client, etl: str) -> None:
    """1. An edit that was overtaken is refused. 2. A change is made again on the newest content, at most five times."""

    def overtake(priority: int) -> None:
        version = api.get_layer(etl, "oncall").version
        api.patch_layer(etl, "oncall", {"priority": priority}, if_match=version)

    def edit_too_late() -> None:
        with api.edit(etl, "oncall") as content:
            overtake(1)
            content["task_count"] = 2

    with pytest.raises(VersionConflict):
        edit_too_late()

    seen: list[Any] = []

    def change(content: Edited) -> None:
        seen.append(content["priority"])
        if len(seen) == 1:
            overtake(2)
        content["task_count"] = 2

    assert api.change(etl, "oncall", change) is not None
    assert seen == [1, 2]
    assert api.get_layer(etl, "oncall").config == {"priority": 2, "task_count": 2}

    def always_late(content: Edited) -> None:
        seen.append(content["priority"])
        overtake(10 + len(seen))
        content["task_count"] = 3

    seen.clear()
    with pytest.raises(VersionConflict):
        api.change(etl, "oncall", always_late)
    assert len(seen) == 5


def test_a_write_whose_answer_was_lost_is_done_once(api: Client, etl: str, monkeypatch: pytest.MonkeyPatch) -> None:
    patch, lost = api.patch_layer, []

    def losing(*args: Any, **given: Any) -> Written:
        written = patch(*args, **given)
        if not lost:
            lost.append(written)
            raise Unavailable("no answer")
        return written

    monkeypatch.setattr(api, "patch_layer", losing)
    with api.edit(etl, "oncall") as content:
        content["priority"] = 3
    assert content.written == lost[0]
    assert api.get_layer(etl, "oncall").version == 1
