"""What stopped queries leave in a host: the small form of a bench, on the host that the tests of this folder share."""

from __future__ import annotations

import pytest

from penstock.local.kafka import EmbeddedKafka
from penstock.spark.settings import SparkSettings
from tests.bench import hosts_turnover
from tests.bench.hosts import bench_on
from tests.support.bench.figures import unmeasured
from tests.support.spark.hosts import Supervisor


@pytest.mark.long
def test_nothing_stays_of_stopped_queries(
    kafka: EmbeddedKafka, shared_host: Supervisor, shared_settings: SparkSettings
) -> None:
    """Sessions, listeners, producers and scheduler pools of stopped queries are gone or used again."""
    figures = hosts_turnover.measure(
        bench_on(shared_host, kafka.bootstrap, shared_settings, 1),
        warm=2,
        at=[8],
        rest_s=0.0,
        group=2,
        most_collections=1,
    )
    assert unmeasured(figures, may_be_zero=set(figures)) == set()
    assert figures["queries"] == 8
    grown = {name: figures[f"{name}_growth"] for name in ("session", "listener", "producer", "pool")}
    # The last two groups may not be collected yet.
    assert max(grown.values()) <= 2 * 2, f"8 queries left behind {grown}"
    assert grown["pool"] == 0
