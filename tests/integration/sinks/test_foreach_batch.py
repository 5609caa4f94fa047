"""The sink `foreach_batch`: a function of the package gets each batch, at least once."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from penstock.config.model import FunctionOutput
from penstock.control.errors import BrokenTask
from penstock.spark.failures import failure_of
from penstock.spark.sinks import check, writer
from tests.support.spark.session import DELAYS, delays, forget_last_commit, run_to_end, sink_task
from tests.support.spark.sinks import NOWHERE

MODULE = "tests.support.spark.batch_functions"


def function(name: str) -> FunctionOutput:
    return FunctionOutput(python=f"{MODULE}:{name}")


def test_state_goes_on_whatever_the_function_reads(spark: SparkSession, tmp_path: Path) -> None:
    """1. Two batches of a query with state, of which the function reads no row. 2. The last one again. 3. Another one:
    each finds the state of the one before."""
    feed, checkpoint = delays(tmp_path / "feed"), tmp_path / "checkpoint"
    spec = sink_task(function("forgetful"), output_mode="update")

    def run() -> None:
        run_to_end(writer(feed.frame(spark).groupBy("dest").count(), spec, NOWHERE), checkpoint)

    run()
    assert forget_last_commit(checkpoint) == 1
    for version in (checkpoint / "state").rglob("2.delta"):
        version.unlink()
    run()
    feed.add(DELAYS)
    run()
    assert list((checkpoint / "state").rglob("3.delta"))


def test_an_error_of_the_function_is_told_with_its_own_frames(spark: SparkSession, tmp_path: Path) -> None:
    feed = delays(tmp_path / "feed")
    with pytest.raises(StreamingQueryException) as failed:
        run_to_end(writer(feed.frame(spark), sink_task(function("broken")), NOWHERE), tmp_path / "checkpoint")
    failure = failure_of(failed.value)
    reason, *frames = failure.error.split("\n")
    assert (reason, failure.error_kind) == ("KeyError: 'forgotten'", "retryable")
    assert [frame.partition(" in ")[2] for frame in frames] == [
        '_deeper: return found["forgotten"]',
        "broken: _deeper({})",
    ]


@pytest.mark.parametrize(
    ("name", "told"),
    [("missing", "has no attribute 'missing'"), ("alone", "cannot be called as function(frame, batch_id)")],
)
def test_a_function_that_takes_no_batch_is_refused(spark: SparkSession, tmp_path: Path, name: str, told: str) -> None:
    spec = sink_task(function(name))
    with pytest.raises(BrokenTask) as refused:
        check(delays(tmp_path / "feed").frame(spark), spec.job, spec.config, NOWHERE)
    assert refused.value.detail.startswith(f"output.python: {MODULE}:{name}")
    assert told in refused.value.detail
