"""Spark's analysed plans, in the form of `toJSON`, to the operators whose rows may be in several tasks."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from penstock.config.plan_dataflow import INPUT_MARK, InputColumns, PlanFacts, read_plan

PACKAGE = "org.apache.spark.sql.catalyst"
COLUMNS = (("k", "int"), ("v", "string"))
INPUTS = {
    "a": InputColumns("spark", ("k",), COLUMNS),
    "b": InputColumns("spark", ("k",), COLUMNS),
    "wide": InputColumns("spark", ("k",), (("k", "bigint"), ("v", "string"))),
    "kafka": InputColumns("kafka", ("k",), COLUMNS),
    "folded": InputColumns("spark", ("v",), (("k", "int"), ("v", "string collate UTF8_LCASE"))),
    "unkeyed": InputColumns("none", (), COLUMNS),
}
Json = dict[str, Any]
Plan = list[Json]


def record(kind: str, children: int = 0, **fields: Any) -> Json:
    return {"class": f"{PACKAGE}.{kind}", "num-children": children, **fields}


def attribute(number: int, name: str = "k") -> Plan:
    return [record("AttributeReference", name=name, exprId={"id": number})]


def alias(number: int, of: Plan, name: str = "k") -> Plan:
    return [record("Alias", 1, name=name, exprId={"id": number}), *of]


def cast(of: Plan) -> Plan:
    return [record("Cast", 1, dataType="long"), *of]


def equal(left: Plan, right: Plan) -> Plan:
    return [record("EqualTo", 2), *left, *right]


def read(name: str, first: int) -> Plan:
    """An input whose columns have the ids `first` and the next."""
    output = [attribute(first), attribute(first + 1, "v")]
    marked = record("SubqueryAlias", 1, identifier={"name": f"{INPUT_MARK}{name}"})
    return [marked, record("StreamingRelationV2", output=output)]


def project(items: Sequence[Plan], below: Plan) -> Plan:
    return [record("Project", 1, projectList=list(items)), *below]


def aggregate(by: Sequence[Plan], below: Plan) -> Plan:
    return [record("Aggregate", 1, groupingExpressions=list(by), aggregateExpressions=list(by)), *below]


def join(left: Plan, right: Plan, condition: Plan | None, kind: str = "Inner") -> Plan:
    joined = record("Join", 2, joinType={"object": f"{PACKAGE}.plans.{kind}$"}, condition=condition)
    return [joined, *left, *right]


def union(*branches: Plan) -> Plan:
    return [record("Union", len(branches)), *(node for branch in branches for node in branch)]


def facts(plan: Plan) -> PlanFacts:
    return read_plan(json.dumps(plan), INPUTS)


K1, K3 = attribute(1), attribute(3)
A, B, WIDE = read("a", 1), read("b", 3), read("wide", 3)
TOGETHER = [
    ("grouped by the key", aggregate([K1], A)),
    ("by the key under another name", aggregate([attribute(9)], project([alias(9, K1)], A))),
    ("by more than the key", aggregate([K1, attribute(2)], A)),
    ("twice", aggregate([K1], aggregate([K1, attribute(2)], A))),
    ("a join on the keys", join(A, B, equal(K3, K1))),
    ("a join by a filter around it", [record("Filter", 1, condition=equal(K1, K3)), *join(A, B, None)]),
    ("grouped after a join", aggregate([K3], join(A, B, equal(K1, K3)))),
    ("a union of equal keys", aggregate([K1], union(A, B))),
    ("all columns", [record("Distinct", 1), *A]),
    ("duplicates by the key", [record("Deduplicate", 1, keys=[K1]), *A]),
    ("groups of a function", [record("FlatMapGroupsInPandasWithState", 1, groupingAttributes=[K1]), *A]),
]
APART = [
    ("by another column", aggregate([attribute(2)], A)),
    ("by nothing", aggregate([], A)),
    ("an input without key", aggregate([K1], read("unkeyed", 1))),
    ("a cast under the name of the key", aggregate([attribute(9)], project([alias(9, cast(K1))], A))),
    ("a join on a cast", join(A, WIDE, equal(cast(K1), K3))),
    ("a join of keys of different types", join(A, WIDE, equal(K1, K3))),
    ("a join of different key functions", join(A, read("kafka", 3), equal(K1, K3))),
    ("a join on something else", join(A, B, equal(attribute(2), attribute(4)))),
    ("a join without condition", join(A, B, None)),
    ("the filled side of an outer join", aggregate([K3], join(A, B, equal(K1, K3), "LeftOuter"))),
    ("a filter around an outer join", [record("Filter", 1, condition=equal(K1, K3)), *join(A, B, None, "LeftOuter")]),
    ("a union of different types", aggregate([K1], union(A, WIDE))),
    ("a union with a cast", aggregate([K1], union(A, project([alias(9, cast(K3)), attribute(4)], WIDE)))),
    ("a union of keys at different places", aggregate([K1], union(A, project([attribute(4), K3], B)))),
    ("a text that compares as another", aggregate([attribute(2)], read("folded", 1))),
    ("after a function over frames", aggregate([attribute(9)], [record("MapInPandas", 1, output=[attribute(9)]), *A])),
    ("a limit", [record("GlobalLimit", 1), *A]),
    ("an operator that is not known", [record("Mystery", 1), *A]),
    ("two inputs of an operator that is not known", [record("Mystery", 2), *A, *B]),
]


@pytest.mark.parametrize("plan", [plan for _, plan in TOGETHER], ids=[name for name, _ in TOGETHER])
def test_rows_that_meet_are_in_one_task(plan: Plan) -> None:
    found = facts(plan).steps
    assert found
    assert all(step.colocated for step in found)


@pytest.mark.parametrize("plan", [plan for _, plan in APART], ids=[name for name, _ in APART])
def test_rows_that_meet_may_be_in_several_tasks(plan: Plan) -> None:
    assert not facts(plan).steps[-1].colocated


def test_rows_that_are_only_passed_on_meet_nobody() -> None:
    both = union(A, read("unkeyed", 3))
    for plan in (A, project([cast(K1)], A), both, [record("MapInPandas", 1, output=[attribute(9)]), *both]):
        assert facts(plan).steps == []


def test_rollups_group_by_less_than_the_key() -> None:
    """A sliding window gives each row several times with the same key; a rollup gives it without the key, too."""
    for other, colocated in ((K1, True), ([record("Literal")], False)):
        rows = [[K1, attribute(2)], [other, attribute(2)]]
        expand = record("Expand", 1, projections=rows, output=[attribute(7), attribute(8)])
        assert [step.colocated for step in facts(aggregate([attribute(7)], [expand, *A])).steps] == [colocated]


def test_common_tables_keep_their_keys() -> None:
    renamed = record("CTERelationRef", cteId=5, output=[attribute(11), attribute(12)], isStreaming=True)
    common = [record("CTERelationDef", 1, id=5), *A]
    plan = [record("WithCTE", 2, plan=1, cteDefs=[0]), *common, *aggregate([attribute(11)], [renamed])]
    (step,) = facts(plan).steps
    assert step.colocated


def test_a_static_table_meets_nobody_and_another_stream_is_told() -> None:
    table = [record("LogicalRelation", output=[attribute(5)], isStreaming=False)]
    assert facts(aggregate([attribute(5)], table)).steps == []
    assert facts(join(A, table, equal(K1, attribute(5)))).steps == []
    rate = [record("StreamingRelationV2", output=[attribute(5)])]
    assert facts(union(project([K1], A), rate)).result.inputs == {"a", ""}


def test_state_of_a_processor_is_by_the_first_columns() -> None:
    processor = record("TransformWithStateInPySpark", 1, groupingAttributesLen=1, outputAttrs=[attribute(9)])
    for items, colocated in (([K1, attribute(2)], True), ([attribute(2), K1], False)):
        assert [step.colocated for step in facts([processor, *project(items, A)]).steps] == [colocated]


def test_an_initial_state_is_told() -> None:
    table = [record("LocalRelation", output=[attribute(5)])]
    for full in (True, False):
        processor = record("TransformWithStateInPySpark", 2, groupingAttributesLen=1, hasInitialState=full)
        (step,) = facts([processor, *project([K1, attribute(2)], A), *table]).steps
        assert (step.colocated, step.begins_full) == (True, full)
