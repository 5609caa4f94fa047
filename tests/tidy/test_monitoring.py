"""Rules and dashboards name only metrics that some process exports, and each rule has its row in the page of alerts."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from deploy.grafana.build import DASHBOARDS, FOLDER, written
from penstock.model.alert_rules import RUNBOOKS, Severity
from tests.tidy.source import REPOSITORY, Tree, code_files, nodes

RULES = REPOSITORY / "deploy" / "prometheus" / "penstock.rules.yml"
ALERTS = REPOSITORY / "services" / "ALERTS.md"
# Of Prometheus itself, and of its client library.
GIVEN = {"up", "process_cpu_seconds_total", "process_resident_memory_bytes"}
NAME = re.compile(r"\b(?:penstock|task|process)_[a-z_]+\b|\bup\b|penstock:[a-z_:0-9]+")
SUFFIXES = ("_total", "_bucket", "_count", "_sum")


def rules() -> list[dict[str, Any]]:
    groups = yaml.safe_load(RULES.read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def exported(tree: Tree) -> set[str]:
    """All names of metrics that the code has. A Task Manager's counters are named in a table, without the prefix."""
    texts = [
        node.value
        for path, module in code_files(tree)
        for node in nodes(module)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and re.fullmatch(r"[a-z_]+", node.value)
        if path.endswith("metrics.py") or node.value.startswith("penstock_")
    ]
    return {name for text in texts for name in (text, f"penstock_{text}")}


def queries() -> Iterator[tuple[str, str]]:
    """Every query with where it is."""
    for rule in rules():
        yield rule.get("alert", rule.get("record")), rule["expr"]
    for page in DASHBOARDS:
        for panel in page.panels:
            yield from ((f"{page.title}, {panel.title}", query) for query in panel.queries.values())


def test_every_metric_of_a_query_is_exported(repository: Tree) -> None:
    known = exported(repository) | GIVEN | {rule["record"] for rule in rules() if "record" in rule}
    unknown = [
        (where, name)
        for where, query in queries()
        for name in NAME.findall(query)
        if name not in known and not any(name.removesuffix(suffix) in known for suffix in SUFFIXES)
    ]
    assert unknown == []


def test_a_metric_that_nobody_exports_is_found() -> None:
    tree = {"services/x/metrics.py": '"""x"""\nA = Counter("penstock_a", "b")\nB = {"task_c": "d"}\n'}
    assert {"penstock_a", "penstock_task_c"} <= exported(tree)
    assert "penstock_z" not in exported(tree)


def test_each_rule_has_a_row_in_the_page_of_alerts() -> None:
    rows = re.findall(r'^\| <a id="(\w+)"></a>`(Penstock\w+)` \| .+ \| .+ \|$', ALERTS.read_text(), re.MULTILINE)
    assert sorted(rows) == sorted((rule["alert"], rule["alert"]) for rule in rules() if "alert" in rule)


@pytest.mark.parametrize("rule", [rule for rule in rules() if "alert" in rule], ids=lambda rule: rule["alert"])
def test_each_alert_says_how_grave_it_is_what_it_means_and_where_its_runbook_is(rule: dict[str, Any]) -> None:
    by_kind = rule["alert"] == "PenstockAlertOpen"
    assert (rule["labels"]["severity"] in set(Severity)) is not by_kind
    assert rule["annotations"]["summary"]
    row = "{{ $labels.kind }}" if by_kind else rule["alert"]
    base = "{{ with $externalLabels.runbook_url }}{{ . }}/{{ end }}"
    assert rule["annotations"]["runbook"] == f"{base}{RUNBOOKS}#{row}"


@pytest.mark.parametrize("page", DASHBOARDS, ids=lambda page: page.uid)
def test_a_dashboard_is_as_its_panels_say(page: Any) -> None:
    """The file is what `build.py` writes; panels have numbers of their own, and do not overlap."""
    text = (FOLDER / f"{page.uid}.json").read_text()
    assert text == written(page), "run python deploy/grafana/build.py"
    panels = json.loads(text)["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    cells = [
        (x, y)
        for panel in panels
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]
    assert len(set(cells)) == len(cells)
    assert max(x for x, _ in cells) < 24
    assert all(panel["description"] and panel["targets"] for panel in panels)
