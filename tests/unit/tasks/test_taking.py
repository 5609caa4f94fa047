"""Why a container may not take a shard."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.tasks.ownership import Member
from penstock.tasks.taking import ANYWHERE, Constraint, constraint_of, obstacle

B = Member("b", "life", "http://b", "eu", 2.0, 4, 4, labels={"disk": "ssd"})
EU, SSD = Constraint(frozenset(["eu"])), Constraint(labels=frozenset(["disk=ssd"]))


@pytest.mark.parametrize(
    ("change", "asked", "load", "why"),
    [
        ({}, ANYWHERE, {}, None),
        ({}, EU, {"cpu_cores": 1.0, "memory_bytes": 4.0}, None),
        ({}, ANYWHERE, {"disk_bytes": 9.0}, None),
        ({"availability": "cordoned"}, ANYWHERE, {}, "cordoned"),
        ({"availability": "a later word"}, ANYWHERE, {}, "a later word"),
        ({"region": "us"}, EU, {}, "not in region eu"),
        ({"labels": {}}, SSD, {}, "without disk=ssd"),
        ({}, Constraint(avoids=frozenset("b")), {}, "avoided by a task of the shard"),
        ({}, SSD, {"cpu_cores": 1.1, "memory_bytes": 5.0}, "too small in cpu_cores, memory_bytes"),
    ],
)
def test_obstacle(change: dict[str, Any], asked: Constraint, load: dict[str, float], why: str | None) -> None:
    """What is usable of the disk is unknown."""
    assert obstacle(B._replace(**change), asked, load, {"cpu_cores": 1.0, "memory_bytes": 4.0}) == why


def test_constraint_of() -> None:
    assert constraint_of(None) == ANYWHERE
    assert constraint_of("eu,disk=ssd") == Constraint(frozenset(["eu"]), frozenset(["disk=ssd"]))
