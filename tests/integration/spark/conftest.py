"""The host that several files share: `test_host`, loads, owners, Python errors, slow tasks, remade topics.

The last test of `test_slow_tasks` ends it, so files that come after it by name need other hosts.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.local.kafka import EmbeddedKafka
from penstock.spark.settings import SparkSettings
from tests.support.spark.hosts import COMPILED, Supervisor, running_host, settings_for
from tests.support.store.database import fresh_database


@pytest.fixture(scope="package")
def shared_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the shared host has its files."""
    return tmp_path_factory.mktemp("shared")


@pytest.fixture(scope="package")
def shared_database(postgres_url: str) -> Iterator[str]:
    """The database of the shared host's `default` connection."""
    with fresh_database(postgres_url) as database:
        yield database


@pytest.fixture(scope="package")
def shared_settings(kafka: EmbeddedKafka, shared_folder: Path, shared_database: str) -> SparkSettings:
    """A host that measures twice a second, does not wait long for batches, and starts two tasks at once."""
    return settings_for(
        shared_folder,
        kafka.bootstrap,
        connections={"default": shared_database},
        spark_conf=COMPILED,
        spark_master="local[6]",
        load_interval_seconds=0.5,
        disk_interval_seconds=0.5,
        boundary_wait_seconds=0.5,
        lease_grace_seconds=3.0,
        max_concurrent_starts=2,
    )


@pytest.fixture(scope="package")
def shared_host(shared_settings: SparkSettings, shared_folder: Path) -> Iterator[Supervisor]:
    """Ready; the last test of `test_slow_tasks` ends it."""
    with running_host("shared", shared_settings, shared_folder) as supervisor:
        yield supervisor
