"""Settings of a task's session that follow from the job."""

from __future__ import annotations

import pytest

from penstock.spark.session import host_settings, polling_delay_ms
from penstock.spark.settings import SparkSettings


@pytest.mark.parametrize(("interval", "delay"), [(0.0, 100), (0.02, 20), (0.0001, 100), (0.05, 50), (5.0, 100)])
def test_an_idle_query_never_sleeps_beyond_its_interval(interval: float, delay: int) -> None:
    assert polling_delay_ms(interval) == delay


@pytest.mark.parametrize(
    ("master", "spark_conf", "authenticates"),
    [
        ("local", {}, "true"),
        ("local[*]", {}, "true"),
        ("local[2,4]", {}, "true"),
        ("yarn", {}, "true"),
        ("k8s://https://cluster:6443", {}, "true"),
        ("spark://127.0.0.1:7077", {}, "false"),
        ("spark://127.0.0.1:7077", {"spark.authenticate": "true", "spark.authenticate.secret": "x"}, "true"),
    ],
)
def test_ports_of_spark_ask_for_a_secret_wherever_spark_makes_one(
    master: str, spark_conf: dict[str, str], authenticates: str
) -> None:
    settings = SparkSettings(checkpoint_root="/c", spark_master=master, spark_conf=spark_conf)
    assert host_settings("h", settings)["spark.authenticate"] == authenticates
