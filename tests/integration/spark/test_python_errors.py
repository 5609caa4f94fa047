"""Code of a package that raises in a Python worker of a host: the task ends with the exception first, and then with the
user's own files and lines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from penstock.local.kafka import EmbeddedKafka
from penstock.spark.packages import pack
from tests.support.spark.hosts import Supervisor, job_config, make_topic, produce, task_spec

PACKAGE = """
import pandas as pd
from pyspark.sql import functions as F
from pyspark.sql.types import StringType

def checked(word):
    raise LookupError(f"no such word: {word}")

def one(word):
    return checked(word)

def series(words: pd.Series) -> pd.Series:
    return pd.Series([checked(word) for word in words])

def by_row(session, inputs, args):
    return inputs["events"].select("n", F.udf(one, StringType())("word").alias("word"))

def by_series(session, inputs, args):
    return inputs["events"].select("n", F.pandas_udf(series, StringType())("word").alias("word"))

def as_it_is(session, inputs, args):
    return inputs["events"]

def write(frame, batch_id):
    frame.select(F.udf(one, StringType())("word")).collect()
"""
IN_BATCH = {"type": "foreach_batch", "python": "failing:write"}


@pytest.fixture(scope="module")
def package(shared_folder: Path) -> dict[str, str]:
    (source := shared_folder / "failing").mkdir()
    (source / "failing.py").write_text(PACKAGE)
    _, digest = pack(source, "failing", "1.0", shared_folder / "packages")
    return {"name": "failing", "version": "1.0", "digest": digest}


@pytest.mark.parametrize(
    ("function", "output", "called"),
    [("by_row", {}, "one"), ("by_series", {}, "series"), ("as_it_is", IN_BATCH, "one")],
    ids=["udf", "pandas udf", "udf in foreach_batch"],
)
def test_what_a_python_worker_raised_is_told_with_the_lines_of_the_package(
    shared_host: Supervisor,
    kafka: EmbeddedKafka,
    shared_folder: Path,
    package: dict[str, str],
    function: str,
    output: dict[str, Any],
    called: str,
) -> None:
    job = f"raises-{function.replace('_', '-')}"
    topic = make_topic(kafka.bootstrap, 1)
    produce(kafka.bootstrap, topic, [{"n": 1, "word": "w1", "at": "2024-01-01T00:00:00Z"}], 1)
    written = output or {"type": "files", "path": str(shared_folder / "out" / job)}
    config = job_config(topic, 1, written, query={"python": f"failing:{function}"}, package=package)
    assert shared_host.start(task_spec(job, config)).ok
    ended = shared_host.next_ended()
    assert (ended.task_id, ended.error_kind) == (f"{job}/0", "retryable")
    reason, inner, outer, *_ = ended.error.split("\n")
    assert reason == "LookupError: no such word: w1"
    assert inner.startswith(f"  at failing.py:{_line('raise LookupError')} in checked")
    assert outer.startswith(f"  at failing.py:{_line_of_call(called)} in ")


def _line(text: str) -> int:
    return next(number for number, line in enumerate(PACKAGE.split("\n"), 1) if text in line)


def _line_of_call(function: str) -> int:
    return _line(f"def {function}(") + 1
