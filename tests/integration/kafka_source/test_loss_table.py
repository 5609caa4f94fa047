"""What a catch-up loses: nothing with `penstock-kafka`, with Spark's source what the shape of the input makes it.

The short form is that of the bench (`tests/integration/bench`)."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from penstock.local.kafka import EmbeddedKafka
from tests.support.kafka.loss_table import SHAPES, Outcome, cases, outcomes


@pytest.mark.long
def test_the_whole_table(spark: SparkSession, kafka: EmbeddedKafka, tmp_path: Path):
    found = list(outcomes(spark, kafka.bootstrap, cases((5, 10, 30), (0.02, 0.1), 40_000), tmp_path))
    assert len(found) == len(SHAPES) * 6
    for outcome in found:
        _check(outcome)
    for shape in SHAPES.values():
        lost = sum(outcome.spark_lost for outcome in found if outcome.case.shape is shape)
        assert (lost > 0) == shape.spark_loses, f"{shape.name}: {lost}"


def _check(outcome: Outcome) -> None:
    assert outcome.own_lost == 0, outcome
    assert outcome.own_batches <= 1.5 * outcome.spark_batches + 2, outcome
