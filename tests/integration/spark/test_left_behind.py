"""What stopped queries leave in a host: the small form of a bench, on the host that the tests of this folder share."""

from __future__ import annotations

import pytest

from penstock.local.kafka import EmbeddedKafka
from penstock.spark.settings import SparkSettings
from tests.bench import hosts_stateful, hosts_turnover
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


@pytest.mark.long
def test_classes_and_compiled_code_of_a_hundred_different_queries_are_kept(
    kafka: EmbeddedKafka, shared_host: Supervisor, shared_settings: SparkSettings
) -> None:
    """Spark generates 15 classes and more for each of a hundred queries, which run one after another, twice. Each runs
    once more, as another job: hardly a class is made for it. Compiled code still grows a little, since the JVM compiles
    what runs often."""
    figures = hosts_turnover.measure(
        bench_on(shared_host, kafka.bootstrap, shared_settings, 1),
        warm=200,
        at=[100],
        rest_s=0.0,
        group=1,
        most_collections=1,
        statements=list(hosts_stateful.different(100)),
    )
    assert figures["queries"] == 100
    assert figures["classes_loaded"] < 250, figures
    assert figures["metaspace_growth_mb"] < 3, figures
    assert figures["code_cache_growth_mb"] < 10, figures
