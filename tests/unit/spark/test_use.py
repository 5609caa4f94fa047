"""Counters of queries to loads: tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from penstock.config.model import DeltaOutput, FunctionOutput, KafkaOutput, Output, PostgresOutput
from penstock.spark.host.loads import folder_bytes
from penstock.spark.measure.use import Kept, Use, load_between, memory_of, use_of, with_overhead
from penstock.tasks.dimensions import CPU, MEMORY, NETWORK

DELTA = DeltaOutput(path="/t")


def record(**counts: Any) -> dict[str, Any]:
    nothing = {"recordsRead": 0, "bytesRead": 0, "recordsWritten": 0, "bytesWritten": 0, "resultBytes": 0}
    return {"run": "r", "cpuNanos": 2_500_000_000, **nothing, **counts}


@pytest.mark.parametrize(
    ("counts", "output", "expected"),
    [
        pytest.param({}, DELTA, 0, id="nothing read is nothing"),
        pytest.param({"recordsRead": 3, "bytesRead": 30}, DELTA, 30, id="all rows filtered"),
        pytest.param({"recordsRead": 3}, DELTA, None, id="a source that counts no bytes"),
        pytest.param({"recordsWritten": 3}, DELTA, None, id="a sink that counts no bytes"),
        pytest.param({"recordsWritten": 3, "bytesWritten": 9, "resultBytes": 7}, DELTA, 9, id="written"),
        pytest.param({"recordsRead": 3, "bytesRead": 30, "recordsWritten": 1, "bytesWritten": 9}, DELTA, 39, id="both"),
        pytest.param({"resultBytes": 7}, PostgresOutput(connection="c", table="t"), 7, id="postgres: results"),
        pytest.param({}, KafkaOutput(topic="t", delivery="at_least_once"), None, id="spark's own kafka sink"),
        pytest.param({"bytesWritten": 9, "recordsWritten": 1}, FunctionOutput(python="m:f"), None, id="a function"),
        pytest.param({"recordsWritten": 1, "bytesWritten": 9}, KafkaOutput(topic="t"), 9, id="kafka"),
    ],
)
def test_bytes_that_nobody_counted_are_unknown(counts: dict[str, int], output: Output, expected: int | None) -> None:
    assert use_of(record(**counts), [output]) == Use("r", 2.5, expected)


def test_what_several_outputs_get_is_unknown() -> None:
    """Spark counts the rows that are kept for them as read again by each."""
    counts = record(recordsRead=1, bytesRead=3, recordsWritten=1, bytesWritten=9, resultBytes=7)
    assert use_of(counts, [DELTA, KafkaOutput(topic="t")]).network_bytes is None


def test_a_load_is_what_was_used_between_two_looks() -> None:
    before, after = Use("r", 1.0, 150), Use("r", 6.0, 650)
    assert load_between(before, after, 10.0) == {CPU: 0.5, NETWORK: 50.0}


@pytest.mark.parametrize("before", [None, Use("earlier", 1.0, 0)], ids=["first look", "another run"])
def test_one_look_at_a_run_tells_no_load(before: Use | None) -> None:
    assert load_between(before, Use("r", 6.0, 650), 10.0) == {}


@pytest.mark.parametrize(
    ("jvm_cores", "expected"),
    [
        pytest.param(0.6, (0.15, 0.45), id="what the JVM does beside is theirs in proportion"),
        pytest.param(0.3, (0.1, 0.3), id="a JVM of which executors elsewhere do the work"),
        pytest.param(1.9, (0.2, 0.6), id="at most as much again"),
        pytest.param(None, (0.1, 0.3), id="unknown"),
    ],
)
def test_the_cpu_of_the_host_is_shared_by_its_tasks(jvm_cores: float | None, expected: tuple[float, float]) -> None:
    loads = with_overhead({"a": {CPU: 0.1}, "b": {CPU: 0.3, NETWORK: 7.0}, "c": {}}, jvm_cores)
    assert (loads["a"][CPU], loads["b"][CPU]) == pytest.approx(expected)
    assert (loads["b"][NETWORK], loads["c"]) == (7.0, {})


def test_idle_tasks_use_nothing_whatever_their_host_does() -> None:
    assert with_overhead({"a": {CPU: 0.0}}, 1.0) == {"a": {CPU: 0.0}}


def test_unknown_bytes_leave_the_network_unknown() -> None:
    assert load_between(Use("r", 1.0, None), Use("r", 1.0, None), 10.0) == {CPU: 0.0}


def test_the_tasks_of_a_host_add_up_to_its_heap_and_the_state_outside() -> None:
    tasks = {"a": Kept(600, on_heap=True), "b": Kept(50, on_heap=False), "c": Kept(0, on_heap=True)}
    memory = memory_of(tasks, 900)
    assert memory == {"a": {MEMORY: 700.0}, "b": {MEMORY: 150.0}, "c": {MEMORY: 100.0}}
    assert sum(load[MEMORY] for load in memory.values()) == 900 + 50


def test_state_that_grew_since_the_last_collection_leaves_nothing_else_to_share() -> None:
    assert memory_of({"a": Kept(600, on_heap=True), "b": Kept(0, on_heap=True)}, 500) == {
        "a": {MEMORY: 600.0},
        "b": {MEMORY: 0.0},
    }


def test_an_unknown_heap_leaves_memory_unknown() -> None:
    assert memory_of({"a": Kept(600, on_heap=True)}, None) == {}


def test_the_size_of_a_folder_is_that_of_all_files_below(tmp_path: Path) -> None:
    (tmp_path / "state" / "0").mkdir(parents=True)
    (tmp_path / "metadata").write_bytes(b"12345")
    (tmp_path / "state" / "0" / "1.delta").write_bytes(b"123")
    (tmp_path / "elsewhere").symlink_to(tmp_path / "state")
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "metadata")
    assert folder_bytes(tmp_path) == 8 + link.lstat().st_size
    assert folder_bytes(tmp_path / "nowhere") == 0
