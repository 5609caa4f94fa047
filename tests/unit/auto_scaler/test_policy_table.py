"""The README's table of the policy has each field with its default, in the order of the class."""

from __future__ import annotations

import re
from typing import Any

from services.auto_scaler.decide.policy import Policy
from tests.tidy.source import REPOSITORY

README = REPOSITORY / "services" / "auto_scaler" / "decide" / "README.md"
ROW = re.compile(r"^\| `(?P<name>\w+)` \| `(?P<default>[^`]+)` \|(?P<unit>[^|]*)\| [^|]+ \|$", re.MULTILINE)
UNITS = {"seconds": "s", "minutes": "min", "days": "days"}


def written(default: Any) -> str:
    return "[]" if default == () else str(default).lower() if isinstance(default, bool) else f"{default}"


def test_the_table_is_that_of_the_class() -> None:
    rows = [(row["name"], row["default"]) for row in ROW.finditer(README.read_text())]
    assert rows == [(name, written(field.default)) for name, field in Policy.model_fields.items()]


def test_a_name_that_says_a_unit_has_it() -> None:
    for row in ROW.finditer(README.read_text()):
        unit = UNITS.get(row["name"].rpartition("_")[2])
        assert unit in (None, row["unit"].strip()), row["name"]
