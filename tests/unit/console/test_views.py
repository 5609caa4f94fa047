"""Layers side by side, differences, plans, containers, runbooks."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from penstock.model.alerts import AlertKind
from penstock.wire.containers import ContainerView
from penstock.wire.jobs import ExplainedLeafView, Explanation, LayerVersion, PlanView
from services.console.views.containers import dimensions, regions
from services.console.views.diffs import Difference, differences
from services.console.views.layers import layers_table
from services.console.views.plans import set_now, shown
from services.console.views.runbooks import as_html, runbooks, sections
from services.console.views.subjects import subject_path

NOW = datetime(2026, 11, 25, tzinfo=UTC)
ALERTS = Path(__file__).parents[3] / "services" / "ALERTS.md"


def leaf(field: str, layer: str, value: object, *hidden: tuple[str, object]) -> ExplainedLeafView:
    below = [{"layer": name, "version": 1, "field": field, "value": each} for name, each in hidden]
    known: dict[str, Any] = dict.fromkeys(ExplainedLeafView.model_fields)
    facts = {"field": field, "path": [field], "value": value, "layer": layer, "hides": below}
    return ExplainedLeafView.model_validate(known | facts)


LEAVES = [
    leaf("owner", "base", "ann"),
    leaf("task_count", "oncall", 8, ("scaler", 4), ("base", 2), ("default", 1)),
    leaf("priority", "default", 0),
]


def test_layers_stand_side_by_side_with_what_counts() -> None:
    explained = Explanation(job="etl", revision=1, leaves=LEAVES)
    versions = [LayerVersion(layer=name, version=1) for name in ("oncall", "base", "scaler")]
    order = ["base", "provisioner", "scaler", "oncall"]
    table = layers_table(explained, order, versions, all_fields=False)
    assert [column.layer for column in table.columns] == ["base", "scaler", "oncall"]
    assert [row.leaf.field for row in table.rows] == ["owner", "task_count"]
    cells = table.rows[1].cells
    assert {name: (cell.value, cell.counts) for name, cell in cells.items()} == {
        "oncall": (8, True),
        "scaler": (4, False),
        "base": (2, False),
        "default": (1, False),
    }
    assert table.left_out == 1
    assert len(layers_table(explained, order, versions, all_fields=True).rows) == 3


def test_differences_are_by_leaf() -> None:
    old, new = {"a": 1, "b": {"c": 1, "d": 2}, "gone": True}, {"a": 1, "b": {"c": 5, "d": 2}, "e": [1]}
    assert list(differences(old, new)) == [
        Difference("b.c", 1, 5),
        Difference("e", None, [1]),
        Difference("gone", True, None),
    ]
    assert list(differences(None, {"a": 1})) == [Difference("a", None, 1)]
    assert list(differences(new, new)) == []


def test_long_texts_differ_by_line() -> None:
    old = "SELECT a,\n  b\nFROM t"
    (found,) = differences({"sql": old}, {"sql": old.replace("b", "c")})
    assert found.lines == (" SELECT a,", "-  b", "+  c", " FROM t")


def test_texts_that_take_long_to_compare_are_only_counted() -> None:
    many, long = "SELECT 1\n" * 2_000, "x" * 70_000
    for old, new in ((many, many + "1"), (long, long + "\ny"), (None, many)):
        (found,) = differences({"sql": old}, {"sql": new})
        (line,) = found.lines
        assert "too long to be compared" in line


def plan(**known: Any) -> PlanView:
    facts: dict[str, Any] = {
        "kind": "rescale",
        "allowed": True,
        "fields": [{"field": "task_count", "old": 2, "new": 4, "kind": "rescale"}],
        "steps": ["stop", "commit"],
        "waves": [],
        "completeness": None,
        "tasks_touched": ["etl/0", "etl/1"],
        "downtime_seconds": None,
        "catch_up_seconds": 30.0,
    }
    return PlanView.model_validate({"job": "etl", "layer": "oncall", "version": 1, "config": {}, **facts, **known})


def test_a_plan_says_what_it_costs_and_what_is_unknown() -> None:
    found = shown(plan(completeness="wait"))
    assert found.costs[:3] == ("touches 2 tasks", "down for an unknown time", "catches up in 30 s")
    assert "completeness: wait" in found.costs[3]
    assert shown(plan(tasks_touched=[])).costs == ("touches 0 tasks",)
    (change,) = found.changes
    assert change == ("rescale", Difference("task_count", 2, 4))


def test_a_plan_shows_what_spark_finds() -> None:
    problem = {"field": "query.sql", "rule": "columns", "detail": "there is no column x"}
    found = shown(plan(analysis={"verified": False, "problems": [problem]}))
    assert found.problems == ("query.sql (columns): there is no column x",)
    assert not found.notes
    login = {"field": "inputs", "rule": "kafka_login", "detail": "inputs: kafka refuses the user bob"}
    found = shown(plan(analysis={"verified": False, "problems": [login], "why": "no warm host"}))
    assert found.problems == ("inputs (kafka_login): inputs: kafka refuses the user bob",)
    assert found.notes == ("not verified by Spark: no warm host",)
    assert set_now({"slo": {"max_lag_seconds": 5}, "priority": 1}) == "slo.max_lag_seconds, priority"
    assert set_now(None) == ""
    assert shown(plan(analysis={"verified": False, "why": "no warm host"})).notes == (
        "not verified by Spark: no warm host",
    )


def container(name: str, load: float | None, usable: float = 4.0, **known: Any) -> ContainerView:
    placement = (
        None
        if load is None
        else {"at": NOW, "load": {"cpu_cores": load}, "usable": {"cpu_cores": usable}, "deviation": {}}
    )
    facts: dict[str, Any] = dict.fromkeys(ContainerView.model_fields) | {
        "url": "", "region": "north", "labels": {}, "cpu_cores": 4, "memory_bytes": 1, "disk_bytes": 1,
        "further_capacity": {"gpu": 1}, "capacity": {"cpu_cores": 4, "gpu": 1, "memory_bytes": 1}, "state": "live",
        "availability": "open", "registered_at": NOW, "heartbeat_at": NOW, "lease_age_seconds": 1, "shards": 1,
        "tasks": 1,
    }  # fmt: skip
    return ContainerView.model_validate(facts | known | {"name": name, "placement": placement})


def test_containers_are_tiles_by_region_and_the_unknown_is_not_empty() -> None:
    fleet = [container("b", 4.4), container("a", 1.0), container("c", None), container("d", 0.0, region="south")]
    found = regions(fleet, "cpu_cores")
    assert list(found) == ["north", "south"]
    shades = {tile.container.name: (tile.share, tile.shade) for tiles in found.values() for tile in tiles}
    assert shades == {"a": (0.25, 2), "b": (1.1, 10), "c": (None, None), "d": (0.0, 0)}
    assert found["north"][2].label == "c: load unknown, open"
    assert {tile.share for tile in regions(fleet, "memory_bytes")["north"]} == {None}
    assert dimensions(fleet) == ["cpu_cores", "memory_bytes", "gpu"]
    assert dimensions([]) == []


def test_each_kind_of_alert_has_a_runbook() -> None:
    found = runbooks(ALERTS.read_text())
    assert set(AlertKind) <= found.keys()
    assert len(found[AlertKind.UNPLACEABLE]) > 1
    assert all(each.meaning and each.action for rows in found.values() for each in rows)


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("run `penstock tasks`", "run <code>penstock tasks</code>"),
        ("rows are **lost**", "rows are <strong>lost</strong>"),
        ("[the page](README.md#x) says", "the page says"),
        ("[`x`](#known), [y](#other), [z](/known)", '<a href="/alerts#known"><code>x</code></a>, y, z'),
        ("[<b>](#known)", '<a href="/alerts#known">&lt;b&gt;</a>'),
        ('[x](#known"onclick="y)', "x"),
        ("a < b & `<script>`", "a &lt; b &amp; <code>&lt;script&gt;</code>"),
    ],
)
def test_cells_of_the_page_of_alerts_become_html(text: str, html: str) -> None:
    assert as_html(text, {"known"}) == html


def test_a_row_leads_to_the_section_that_it_names() -> None:
    """The page of alerts has what its rows have links to, with the commands as they are."""
    text = ALERTS.read_text()
    found = {section.anchor: section for section in sections(text)}
    assert found.keys() == {"give-a-package-that-works", "limits"}
    section = found["give-a-package-that-works"]
    assert section.title == "Give a package that works"
    assert section.parts[0].startswith("<pre>penstock explain JOB")
    assert all(part.startswith("<p>") for part in section.parts[1:])
    link = f'<a href="/alerts#{section.anchor}">a package that works</a>'
    assert link in runbooks(text)[AlertKind.TASK_CRASHING][0].action


@pytest.mark.parametrize(
    ("kind", "subject", "path"),
    [
        ("job_lagging", "etl", "/jobs/etl"),
        ("held_back", "etl/3", "/jobs/etl"),
        ("expiry_blocked", "etl/oncall", "/jobs/etl"),
        ("container_outlier", "c1", "/containers/c1"),
        ("reports_old", "c1", "/containers/c1"),
        ("unplaceable", "no_container", None),
        ("scaling_frozen", "cell", None),
        ("of a newer release", "etl", None),
        ("job_lagging", "../x", None),
    ],
)
def test_the_subject_of_an_alert_leads_to_its_page(kind: str, subject: str, path: str | None) -> None:
    assert subject_path(kind, subject) == path
