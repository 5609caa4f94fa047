"""A round writes as soon as any field of its batch is set."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

from services.state_syncer.store.port import Batch

VALUES: dict[str, Any] = {"restored": {"j": 1}, "ranks": {"base": 0}}


@pytest.mark.parametrize("name", [field.name for field in fields(Batch)])
def test_any_field_makes_a_batch_that_is_written(name: str) -> None:
    assert Batch(**{name: VALUES.get(name, ["j"])})


def test_an_empty_batch_is_not_written() -> None:
    assert not Batch()
