"""The page of alerts names each kind of alert, and each cause of `unplaceable`, once and nothing else."""

from __future__ import annotations

import re

from penstock.config.tree import FIELD_TABLE
from penstock.model.alert_rules import RULES, RUNBOOKS
from penstock.model.alerts import AlertKind
from penstock.model.causes import CauseKind
from services.shard_manager.placement.alerts import CELL_SHORT
from services.shard_manager.placement.reasons import Cause
from tests.tidy.source import REPOSITORY, Tree, code_files

ROW = re.compile(r"^\| (?:<a id=\"(?P<anchor>\w+)\"></a>)?`(?P<kind>[a-z_]+)` \| (?P<subject>[^|]+) \|", re.MULTILINE)
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


def test_the_first_row_of_each_kind_is_where_links_lead() -> None:
    anchors: dict[str, list[str | None]] = {}
    for row in ROW.finditer((REPOSITORY / RUNBOOKS).read_text()):
        anchors.setdefault(row["kind"], []).append(row["anchor"])
    assert {kind: found for kind, found in anchors.items() if found[0] != kind or any(found[1:])} == {}


def test_each_kind_has_a_rule_and_each_setting_of_a_rule_exists() -> None:
    assert set(RULES) == set(AlertKind)
    named = {rule.limit.setting for rule in RULES.values() if rule.limit is not None and rule.limit.setting}
    pages = [*(REPOSITORY / "services").glob("*/README.md"), REPOSITORY / "libs/penstock/spark/README.md"]
    tables = "".join(path.read_text() for path in pages)
    unknown = {name for name in named if f"| `{name}` |" not in tables} - {field.path for field in FIELD_TABLE}
    assert unknown == set()
    assert all(rule.condition for rule in RULES.values())


def test_alerts_are_opened_in_one_place_and_each_kind_by_somebody(repository: Tree) -> None:
    """`penstock.store.alerts` takes only kinds of the table, and nobody else writes the table."""
    code = {path: repository[path] for path, _ in code_files(repository)}
    assert [path for path, text in code.items() if "INTO alerts" in text] == ["libs/penstock/store/alerts.py"]
    said = "".join(
        text for path, text in code.items() if not path.startswith(("libs/penstock/model/", "services/console/"))
    )
    assert [kind for kind in AlertKind if f"AlertKind.{kind.name}" not in said] == []


def test_the_page_of_causes_names_each_kind() -> None:
    page = (REPOSITORY / "services" / "job_service" / "causes" / "README.md").read_text()
    rows = "\n".join(line for line in page.splitlines() if line.startswith("| `"))
    assert [kind for kind in CauseKind if f"`{kind}`" not in rows] == []
