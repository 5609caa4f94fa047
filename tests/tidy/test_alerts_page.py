"""The page of alerts names each kind of alert, and each cause of `unplaceable`, once and nothing else."""

from __future__ import annotations

import re

from penstock.model.alerts import AlertKind
from penstock.model.causes import CauseKind
from services.shard_manager.placement.alerts import CELL_SHORT
from services.shard_manager.placement.reasons import Cause
from tests.tidy.source import REPOSITORY

ROW = re.compile(r"^\| `(?P<kind>[a-z_]+)` \| (?P<subject>[^|]+) \|", re.MULTILINE)
CAUSES = {*Cause, CELL_SHORT}


def rows_of(page: str) -> list[tuple[str, str]]:
    """The kind of each row, and its subject where it is one of several of the kind."""
    found = [(row["kind"], row["subject"].strip("`")) for row in ROW.finditer(page)]
    return [(kind, subject if kind == AlertKind.UNPLACEABLE else "") for kind, subject in found]


def test_the_page_has_a_row_for_each_kind_of_alert() -> None:
    rows = rows_of((REPOSITORY / "services" / "ALERTS.md").read_text())
    expected = [(kind.value, "") for kind in AlertKind if kind is not AlertKind.UNPLACEABLE]
    assert sorted(rows) == sorted([*expected, *((AlertKind.UNPLACEABLE.value, cause) for cause in CAUSES)])


def test_a_row_is_read_with_its_kind_and_its_cause() -> None:
    page = "| kind | subject |\n|---|---|\n| `held_back` | task | x |\n| `unplaceable` | `too_large` | x |\n"
    assert rows_of(page) == [("held_back", ""), ("unplaceable", "too_large")]


def test_the_page_of_causes_names_each_kind() -> None:
    page = (REPOSITORY / "services" / "job_service" / "causes" / "README.md").read_text()
    rows = "\n".join(line for line in page.splitlines() if line.startswith("| `"))
    assert [kind for kind in CauseKind if f"`{kind}`" not in rows] == []
