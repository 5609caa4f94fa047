"""The settings table of the README is the one of the settings class."""

from __future__ import annotations

from pathlib import Path

import pytest

from services import shard_manager
from services.shard_manager.settings import ShardManagerSettings
from tests.support.settings_table import settings_table


def test_the_readme_has_the_settings() -> None:
    readme = Path(str(shard_manager.__file__)).with_name("README.md").read_text()
    assert settings_table(ShardManagerSettings) in readme


def test_a_lease_that_outlives_the_fail_over_interval_is_refused() -> None:
    with pytest.raises(ValueError, match="container_lease_seconds must be below fail_over_seconds"):
        ShardManagerSettings(container_lease_seconds=60.0, fail_over_seconds=60.0)
