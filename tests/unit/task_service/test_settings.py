"""The settings table of the README is the one of the settings class."""

from __future__ import annotations

from pathlib import Path

from services import task_service
from services.task_service.settings import TaskServiceSettings
from tests.support.settings_table import settings_table


def test_the_readme_has_the_settings() -> None:
    readme = Path(str(task_service.__file__)).with_name("README.md").read_text()
    assert settings_table(TaskServiceSettings) in readme
