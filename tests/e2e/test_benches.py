"""Small forms of the benches that need a stack: what they measure is reached, and figures come out."""

from __future__ import annotations

import pytest

from penstock.local.jars import share_dir
from penstock.local.stack import LocalStack
from tests.bench import api, change_latency, overhead, rescale_busy, rescale_many, submissions
from tests.support.bench.figures import unmeasured
from tests.support.spark.hosts import INTERPRETED
from tests.support.spark.session import CHECKPOINTS, quick_jvm_settings


def test_change_latency(stack: LocalStack):
    figures = change_latency.measure(stack, changes=1, warm=0)
    assert unmeasured(figures) == set()
    assert figures["changes"] == 1


def test_submissions(stack: LocalStack):
    """Stopped jobs, for the containers of the tests are not to run them."""
    assert unmeasured(submissions.measure(stack, 20, desired_state="stopped")) == set()


def test_api(stack: LocalStack):
    figures = api.measure(stack, 20, seconds=1.0)
    assert unmeasured(figures, {name for name in figures if name.endswith(api.CPU_MS)}) == set()
    assert figures["jobs"] == 20


@pytest.mark.long
def test_overhead(stack: LocalStack):
    """Long, for the bare driver is one more JVM; that rows flow under Penstock other tests of this folder say.

    The bare driver starts as the tests' hosts do: both live for seconds. To files: a table of Delta takes a young JVM
    long."""
    files = {"spark.sql.streaming.checkpointFileManagerClass": CHECKPOINTS}
    quick = {**quick_jvm_settings(share_dir() / "jars"), **INTERPRETED, **files}
    figures = overhead.measure(stack, 0, overhead.Sizes(rows=400, limit=200, counted=1, output="files"), quick)
    assert unmeasured(figures) == set()
    assert figures["ratio"] > 0


@pytest.mark.long
def test_rescale_of_many_jobs(stack: LocalStack):
    """Long, for it is twenty CPU seconds; a rescale under a crash is in `test_crashes`."""
    figures = rescale_many.measure(stack, "many", 3, trigger_s=0.5, sizes=(1, 2))
    assert unmeasured(figures) == set()
    assert figures["jobs"] == 3


@pytest.mark.long
def test_a_rescale_beside_busy_processes(stack: LocalStack):
    figures = rescale_busy.measure(stack, rescale_busy.CASES, burners=1)
    assert [unmeasured(each) for each in figures.values()] == [set(), set()]
    assert {each["attempts"] for each in figures.values()} == {1}
