"""Every settings class has its table in the README beside it, with the names, defaults and units of the class."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest
from pydantic import BaseModel, Field
from pydantic_settings import BaseSettings

from penstock.cli.settings import CliSettings
from penstock.control.settings import CommonSettings
from penstock.kafka.settings import KafkaSettings
from penstock.local.settings import LocalSettings
from penstock.spark.settings import SparkSettings
from services.auto_scaler.settings import AutoScalerSettings
from services.console.settings import ConsoleSettings
from services.job_service.settings import JobServiceSettings
from services.shard_manager.settings import ShardManagerSettings
from services.state_syncer.settings import StateSyncerSettings
from services.task_manager.settings import TaskManagerSettings
from services.task_service.settings import TaskServiceSettings
from tests.tidy.settings_tables import differences, own_settings
from tests.tidy.source import REPOSITORY

CLASSES = (
    CliSettings,
    CommonSettings,
    KafkaSettings,
    LocalSettings,
    SparkSettings,
    AutoScalerSettings,
    ConsoleSettings,
    JobServiceSettings,
    ShardManagerSettings,
    StateSyncerSettings,
    TaskManagerSettings,
    TaskServiceSettings,
)


@pytest.mark.parametrize("settings", CLASSES, ids=lambda settings: settings.__name__)
def test_the_readme_has_the_settings_of_the_class(settings: type[BaseModel]) -> None:
    readme = Path(inspect.getfile(settings)).with_name("README.md").read_text()
    found = differences(readme, own_settings(settings))
    assert not found, "\n".join([f"README.md beside {settings.__module__}:", *found])


def test_every_settings_module_is_here() -> None:
    files = {path for folder in ("services", "libs") for path in (REPOSITORY / folder).rglob("settings.py")}
    assert files == {Path(inspect.getfile(settings)) for settings in CLASSES}


class _Base(BaseSettings):
    port: int = 7000
    host: str = "here"


class _Example(_Base):
    port: int = 7100
    share: float = 0.25
    token: str | None = None


class _Service(CommonSettings):
    round_seconds: float = Field(5.0, description="time between two rounds")


@pytest.mark.parametrize(
    ("rows", "found"),
    [
        ("| `PENSTOCK_PORT` | `7100` | | x |\n| `PENSTOCK_SHARE` | `0.25` | | x |\n| `PENSTOCK_TOKEN` | | | x |", []),
        (
            "| `PENSTOCK_PORT` | `7000` | | x |\n| `PENSTOCK_SHARE` | `0.250` | | x |\n| `PENSTOCK_TOKEN` | | | x |",
            ["PORT"],
        ),
        ("| `PENSTOCK_PORT` | `7100` | | x |\n\n| `PENSTOCK_SHARE` | `0.25` | | x |", ["SHARE", "TOKEN"]),
        ("| `PENSTOCK_PORT` | `7100` | | x |\n| `PENSTOCK_HOST` | `here` | | x |", ["SHARE", "TOKEN", "HOST"]),
    ],
)
def test_a_table_that_differs_is_caught(rows: str, found: list[str]) -> None:
    lines = differences(
        f"# X\n\n| setting | default | unit | meaning |\n|---|---|---|---|\n{rows}\n", own_settings(_Example)
    )
    assert [line.split()[0].removeprefix("PENSTOCK_") for line in lines] == found


@pytest.mark.parametrize(
    ("row", "is_true"),
    [
        ("| `5` | s | time between two rounds |", True),
        ("| `5` | seconds | time between two rounds |", False),
        ("| `5` | | time between two rounds |", False),
        ("| `5` | B | time between two rounds |", False),
        ("| `5` | s | time of a round |", False),
    ],
)
def test_a_unit_and_a_meaning_that_differ_are_caught(row: str, is_true: bool) -> None:
    table = f"| setting | default | unit | meaning |\n|---|---|---|---|\n| `PENSTOCK_ROUND_SECONDS` {row}\n"
    assert (differences(table, own_settings(_Service)) == []) is is_true
