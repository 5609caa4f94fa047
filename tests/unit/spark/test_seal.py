"""What a seal ends: the series of each output that is written in transactions, on the cluster of its topic."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock.spark.redistribute import seal
from penstock.spark.task import Runtime
from penstock.tasks.redistribution import Layout, SealRequest
from penstock.tasks.spec import key_group_ranges
from tests.support.spark.hosts import job_config

_SIDES = {
    "far": {"output": {"type": "kafka", "topic": "far", "cluster": "eu"}},
    "again": {"output": {"type": "kafka", "topic": "again", "delivery": "at_least_once"}},
    "table": {"output": {"type": "delta", "path": "/table"}},
}
_FAR = ["eu penstock-j/0/7/far", "eu penstock-j/1/7/far"]


@pytest.mark.parametrize(
    ("output", "gone", "sealed"),
    [
        ({"type": "kafka", "topic": "mid"}, (), ["own penstock-j/0/7", "own penstock-j/1/7", *_FAR]),
        ({"type": "delta", "path": "/main"}, (), _FAR),
        ({"type": "delta", "path": "/main"}, ("eu",), []),
    ],
)
def test_the_series_of_all_outputs_are_sealed_but_on_clusters_that_are_gone(
    monkeypatch: pytest.MonkeyPatch, output: dict[str, Any], gone: tuple[str, ...], sealed: list[str]
) -> None:
    found: list[str] = []
    monkeypatch.setattr(seal, "_seal_checkpoint", lambda runtime, request, index: None)
    monkeypatch.setattr(seal, "seal_series", lambda session, kafka, prefix: found.append(f"{kafka} {prefix}"))
    settings = SimpleNamespace(cluster=lambda name: name or "own", gone_clusters=gone)
    runtime = cast(Runtime, SimpleNamespace(settings=settings, spark=None))
    config = job_config("t", 4, output, task_count=2, side_outputs=_SIDES)
    layout = Layout(generation=7, config=config, ranges=key_group_ranges(config))
    seal.seal(runtime, SealRequest(job="j", layout=layout))
    assert found == sealed


def test_readers_of_topics_that_the_job_writes_no_more_do_not_wait_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """All but those on a cluster that is gone."""
    ended: list[tuple[object, ...]] = []
    monkeypatch.setattr(seal, "_seal_checkpoint", lambda runtime, request, index: None)
    monkeypatch.setattr(seal, "seal_series", lambda session, kafka, prefix: None)
    monkeypatch.setattr(seal, "end_marks", lambda *given: ended.append(given))
    settings = SimpleNamespace(cluster=lambda name: name or "own", gone_clusters={"us"})
    runtime = cast(Runtime, SimpleNamespace(settings=settings, spark=None))
    gone = {"output": {"type": "kafka", "topic": "gone", "cluster": "us"}}
    config = job_config("t", 4, {"type": "kafka", "topic": "mid"}, task_count=2, side_outputs={**_SIDES, "gone": gone})
    layout = Layout(generation=7, config=config, ranges=key_group_ranges(config))
    seal.seal(runtime, SealRequest(job="j", layout=layout))
    assert ended == []
    other = job_config("t", 4, {"type": "kafka", "topic": "mid"}, task_count=3)
    seal.seal(runtime, SealRequest(job="j", layout=layout, target=other))
    assert ended == [("eu", "far", "j", 7)]
