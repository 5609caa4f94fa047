"""What a heartbeat may say: a value that the store cannot hold, or that leads elsewhere, is refused by its field."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from penstock.model.reports import TaskReportBatch
from penstock.wire.cluster import HeartbeatRequest, LeaseRequest

GOOD: dict[str, Any] = {
    "container": "c1",
    "url": "https://task_manager-1.cell:7100",
    "region": "eu",
    "capacity": {"cpu_cores": 2, "memory_bytes": 2**31, "disk_bytes": 0, "further": {"gpus": 1}},
    "labels": {"disk": "SSD"},
    "incarnation": "one",
    "held": {"1": 2},
}


def refused(model: Any, said: dict[str, Any]) -> list[str]:
    with pytest.raises(ValidationError) as error:
        model.model_validate(said)
    return [".".join(map(str, each["loc"])) for each in error.value.errors()]


@pytest.mark.parametrize("url", ["http://127.0.0.1:7100", "http://[::1]:7100", "https://m2:7100/penstock"])
def test_a_good_heartbeat_is_taken(url: str) -> None:
    assert HeartbeatRequest.model_validate(GOOD | {"url": url}).url == url


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("url", ""),
        ("url", "file:///etc/passwd"),
        ("url", "gopher://c1:7100"),
        ("url", "http://user:password@c1:7100"),
        ("url", "http://c1:7100/\x00"),
        ("url", "http://c1\nHost: c2"),
        ("url", "http://c1:7100/" + "x" * 500),
        ("container", "../c1"),
        ("region", "e\x00u"),
        ("incarnation", ""),
        ("incarnation", "one\x00"),
        ("incarnation", "x" * 101),
        ("shard_count", 10**300),
        ("start_seconds", float("nan")),
        ("refuses", ["\x00"]),
    ],
)
def test_a_field_out_of_bounds_is_refused(field: str, value: object) -> None:
    assert field in refused(HeartbeatRequest, GOOD | {field: value})[0]


@pytest.mark.parametrize("field", ["cpu_cores", "memory_bytes", "disk_bytes", "further.gpus"])
@pytest.mark.parametrize("amount", [-1, 10**300, float("nan"), float("inf")])
def test_a_capacity_is_an_amount_that_the_store_can_hold(field: str, amount: float) -> None:
    name, _, inner = field.partition(".")
    capacity = GOOD["capacity"] | {name: {inner: amount} if inner else amount}
    assert refused(HeartbeatRequest, GOOD | {"capacity": capacity}) == [f"capacity.{field}"]


@pytest.mark.parametrize("name", ["further", "labels"])
def test_names_are_names(name: str) -> None:
    said = {"labels": {"a\x00": "b"}} if name == "labels" else {"capacity": GOOD["capacity"] | {name: {"a b": 1}}}
    assert name in refused(HeartbeatRequest, GOOD | said)[0]


def test_a_label_is_a_text_that_the_store_can_hold() -> None:
    assert refused(HeartbeatRequest, GOOD | {"labels": {"disk": "\x00"}}) == ["labels.disk"]


def test_a_shard_is_a_number_that_the_store_can_hold() -> None:
    assert "held" in refused(HeartbeatRequest, GOOD | {"held": {str(10**300): 1}})[0]


def test_a_lease_and_a_report_are_of_an_incarnation() -> None:
    lease = {"container": "c1", "incarnation": "one", "former": "\x00"}
    assert refused(LeaseRequest, lease) == ["former"]
    report = {"container": "c1", "incarnation": "\x00", "commit_number": 1, "version": 1, "tasks": []}
    assert refused(TaskReportBatch, report) == ["incarnation"]
