"""What is told of a host that has ended: no value that its log's readers would not see either."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import Mock

import pytest

from penstock.control.masks import Masks
from penstock.spark.host.exits import ExitReason
from penstock.spark.settings import SparkSettings
from services.task_manager.hosts import spark_host
from services.task_manager.hosts.last_words import TAIL_BYTES
from services.task_manager.hosts.spark_host import SparkHost

_SECRET = "hunter2-hunter2"


@pytest.fixture
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Mock:
    """`told(log)`: the last words of a host that crashes with this log, before anybody has read it."""
    monkeypatch.setattr(spark_host, "HostProcess", Mock())
    (secrets := tmp_path / "secrets").mkdir()
    (secrets / "api").write_text(_SECRET)
    settings = SparkSettings(checkpoint_root="/c", secrets_root=secrets)

    def words(log: str) -> str:
        (tmp_path / "h1.log").write_text(log)
        host = SparkHost("h1", settings, tmp_path / "h1.log", Masks(), Mock(), Mock())
        host._on_end(ExitReason.NOT_STARTED)
        ended = host.exit()
        assert ended is not None
        return ended.last_words

    return Mock(side_effect=words)


def test_a_value_that_no_log_shows_is_not_in_the_last_words(told: Mock) -> None:
    assert told(f"begins\nerror: no login with {_SECRET}\n") == "error: no login with ***"


@pytest.mark.parametrize("of_value", range(1, len(_SECRET)))
def test_no_part_of_a_line_is_told_that_is_cut_where_reading_begins(told: Mock, of_value: int) -> None:
    """The end of a value is not found as the value."""
    last = "\nerror: last\n"
    rest = f"{_SECRET} error" + "x" * (TAIL_BYTES - of_value - len(" error") - len(last))
    assert told(f"first\n{rest}{last}") == "error: last"


def test_a_short_log_is_told_from_its_first_line(told: Mock) -> None:
    assert told("error: first\nerror: last\n") == "error: first; error: last"


def test_where_kept_values_cannot_be_read_nothing_is_told(told: Mock, tmp_path: Path) -> None:
    """What is not known cannot be hidden."""
    (tmp_path / "secrets" / "api").unlink()
    (tmp_path / "secrets").rmdir()
    assert told(f"error: no login with {_SECRET}\n") == ""
