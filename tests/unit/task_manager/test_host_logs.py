"""Parts of a host's log: whole lines, of bounded size, without values that are kept."""

from __future__ import annotations

import io
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from penstock.control.errors import NotFound
from penstock.control.masks import Masks
from penstock.spark.access import kept_values
from penstock.spark.channel import Start
from penstock.spark.settings import SparkSettings
from services.task_manager.decide.host_choice import DEFAULT_KEY
from services.task_manager.decide.model import Place
from services.task_manager.hosts import spark_host, spark_hosts
from services.task_manager.hosts.host_logs import HostLogs, whole_lines
from tests.support.task_manager.world import World, spec, template

TEXT = b"one\ntwo\nthree\npart"


@pytest.mark.parametrize(
    ("offset", "limit", "expected"),
    [
        (None, 100, (0, b"one\ntwo\nthree\n")),
        (None, 12, (8, b"three\n")),
        (None, 10, (8, b"three\n")),
        (0, 9, (0, b"one\ntwo\n")),
        (8, 100, (8, b"three\n")),
        (5, 100, (8, b"three\n")),
        (14, 100, (14, b"")),
        (99, 12, (8, b"three\n")),
        (8, 3, (8, b"thr")),
        (9, 3, (12, b"")),
        (12, 3, (14, b"par")),
    ],
)
def test_a_part_begins_and_ends_with_whole_lines(offset: int | None, limit: int, expected: tuple[int, bytes]) -> None:
    assert whole_lines(io.BytesIO(TEXT), len(TEXT), offset, limit) == expected


def test_following_shows_each_line_once_and_no_part_of_a_line_that_is_too_long(tmp_path: Path) -> None:
    long = b"x" * 5000 + b"hunter2-hunter2\n"
    (tmp_path / "h1.log").write_bytes(b"first\n" + long + b"last\n")
    logs = HostLogs("c1", tmp_path, lambda _: Place("h1", 1), lambda: ["hunter2-hunter2"], Masks())
    texts, offset = [], 0
    while True:
        part = logs.part("etl/0", host="h1", offset=offset, limit_bytes=1024)
        if part.end == part.size_bytes and not part.text:
            break
        texts.append(part.text)
        offset = part.end
    said = "".join(texts)
    assert said == "first\n[a line of more than 1024 bytes is left out]\nlast\n"


def test_values_that_are_kept_are_hidden(tmp_path: Path) -> None:
    (tmp_path / "h1.log").write_text("key=abcdef-123 at postgresql://ann:secret@db/x\n")
    part = HostLogs("c1", tmp_path, lambda _: Place("h1", 3), lambda: ["abcdef-123"], Masks()).part(
        "etl/0", host=None, offset=None, limit_bytes=1024
    )
    assert part.text == "key=*** at postgresql://ann:***@db/x\n"
    assert (part.host, part.container, part.tasks, part.begin, part.end) == ("h1", "c1", 3, 0, part.size_bytes)


def test_a_value_that_was_kept_stays_hidden_after_its_rotation(tmp_path: Path) -> None:
    (tmp_path / "h1.log").write_text("key=before-123, then after-456\n")
    kept = ["before-123"]
    logs = HostLogs("c1", tmp_path, lambda _: Place("h1", 1), lambda: kept, Masks())
    texts = []
    for now in ("before-123", "after-456"):
        kept[:] = [now]
        texts.append(logs.part("etl/0", host=None, offset=None, limit_bytes=1024).text)
    assert texts == ["key=***, then after-456\n", "key=***, then ***\n"]


def test_a_value_that_a_host_got_is_hidden_though_nobody_asked_before_its_rotation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """1. A task starts with a value. 2. The value is rotated. 3. The log, asked for the first time, hides both."""
    monkeypatch.setattr(spark_host, "HostProcess", Mock())
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / "api-key").write_text("before-123")
    settings, masks = SparkSettings(checkpoint_root="/c", secrets_root=tmp_path / "secrets"), Masks()
    host = spark_hosts.SparkHosts(settings, tmp_path, masks).start("h1", DEFAULT_KEY, Mock(), Mock())
    host.send(Start(id=1, spec=spec("etl", secrets={"api": "api-key"}), epoch=1))
    (tmp_path / "secrets" / "api-key").write_text("after-456")
    (tmp_path / "h1.log").write_text("key=before-123, then after-456\n")
    logs = HostLogs("c1", tmp_path, lambda _: Place("h1", 1), partial(kept_values, settings), masks)
    assert logs.part("etl/0", host=None, offset=None, limit_bytes=1024).text == "key=***, then ***\n"


def test_logs_of_a_former_process_are_put_aside(tmp_path: Path) -> None:
    """Its hosts had the same names, and the values that were secret then are not known. The newest is kept."""
    for text in ("first", "second"):
        (tmp_path / "c1-host-1.log").write_text(text)
        spark_hosts.SparkHosts(SparkSettings(checkpoint_root="/c"), tmp_path, Masks())
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"c1-host-1.before.log": "second"}


def test_in_another_host_it_begins_at_the_beginning(tmp_path: Path) -> None:
    (tmp_path / "h2.log").write_text("new\n")
    logs = HostLogs("c1", tmp_path, lambda _: Place("h2", 1), list, Masks())
    assert logs.part("etl/0", host="h1", offset=500, limit_bytes=1024).text == "new\n"


@pytest.mark.parametrize("place_of", [lambda _: None, lambda _: Place("gone", 0)])
def test_without_a_host_or_its_file_there_is_none(tmp_path: Path, place_of: Callable[[str], Place | None]) -> None:
    with pytest.raises(NotFound):
        HostLogs("c1", tmp_path, place_of, list, Masks()).part("etl/0", host=None, offset=None, limit_bytes=1024)


def test_secrets_connections_and_secret_settings_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "from-environment")
    secrets = tmp_path / "secrets"
    secrets.mkdir()
    (secrets / "api").write_text("value-of-api\n")
    (secrets / ".hidden").write_text("no secret")
    given: dict[str, Any] = {
        "checkpoint_root": "/c",
        "secrets_root": secrets,
        "connections": {"default": "postgresql://ann:${secret:api}@db/x"},
        "spark_conf": {"spark.hadoop.own.access.key": "from-conf", "spark.sql.ansi.enabled": "false"},
        "host_environment": ("AWS_SECRET_ACCESS_KEY",),
    }
    kept = set(kept_values(SparkSettings(**given)))
    assert kept >= {"value-of-api", "postgresql://ann:value-of-api@db/x", "from-environment", "from-conf"}
    assert not kept & {"false", "no secret"}


def test_a_task_that_ended_has_the_host_in_which_it_ran_last() -> None:
    world = World().jobs(template("etl", task_count=1))
    assert world.container.place_of("etl/0") is None
    world.heartbeat(dict.fromkeys(range(8), 1))
    world.settle()
    first = world.container.place_of("etl/0")
    assert first is not None
    assert first.tasks == 1
    world.jobs()
    world.settle()
    assert world.container.place_of("etl/0") == Place(first.host, 0)
