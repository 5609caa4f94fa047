"""What many unknown names cost: a small configuration must not take a service's time."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any

import pytest

from penstock.config.validate import check_merged
from penstock.control import texts
from penstock.control.errors import InvalidConfig
from tests.support.config.jobs import job

_MANY = 40
_NAMES = [f"name{at}" for at in range(_MANY)]


@pytest.fixture
def compared(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names that were compared with what there is."""
    found = list[str]()

    def counted(name: str, known: Iterable[str], n: int) -> list[str]:
        found.append(name)
        return get_close_matches(name, list(known), n=n)

    monkeypatch.setattr(texts, "get_close_matches", counted)
    return found


def _table(at: int) -> dict[str, Any]:
    return {"path": f"/t/${{name{at}}}", "format": "parquet"}


@pytest.mark.parametrize(
    ("rule", "change"),
    [
        ("unknown_argument", {"query": {"sql": f"SELECT {', '.join(f':{name}' for name in _NAMES)} FROM flights"}}),
        ("unknown_relation", {"query": {"sql": f"SELECT 1 AS one FROM flights, {', '.join(_NAMES)}"}}),
        ("unknown_argument", {"tables": {f"t{at}": _table(at) for at in range(_MANY)}}),
        ("unknown_column", {"inputs": {"flights": {"key_function": "spark", "key_columns": _NAMES[:8]}}}),
    ],
)
def test_few_of_many_unknown_names_are_compared(compared: list[str], rule: str, change: dict[str, Any]) -> None:
    with pytest.raises(InvalidConfig) as refused:
        check_merged(job({"args": {"other": 1}, **change}))
    told = [each["detail"] for each in refused.value.extra["errors"] if each["rule"] == rule]
    assert len(told) > 5, "a problem for each name"
    assert len(compared) == 5
    assert told[0].rpartition("here are: ")[2]
    assert told[-1].rpartition("there are ")[2].isdigit()
