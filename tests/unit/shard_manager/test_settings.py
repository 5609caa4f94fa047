"""Settings that contradict each other are refused."""

from __future__ import annotations

import pytest

from services.shard_manager.settings import ShardManagerSettings


def test_a_lease_that_outlives_the_fail_over_interval_is_refused() -> None:
    with pytest.raises(ValueError, match="container_lease_seconds must be below fail_over_seconds"):
        ShardManagerSettings(container_lease_seconds=60.0, fail_over_seconds=60.0)
