"""Whether a query goes by event time, by the plan that Spark made of it: windows, sessions, and operators that bring
rows together by their time, or keep them until a watermark. Pure.

A time is followed by the names of columns: what is made of one, such as a window, is one too. So other columns of such
a name count as well: a query may be said to go by event time that does not, not the other way round.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from penstock.config.plan_nodes import Tree, tree_of

# The fields by which operators with state bring rows together.
_KEYS = {
    "Aggregate": "groupingExpressions",
    "Deduplicate": "keys",
    "Distinct": "projectList",
    "FlatMapGroupsInPandasWithState": "groupingAttributes",
    "Join": "condition",
}
_TIMERS = {"FlatMapGroupsInPandasWithState": "timeout", "TransformWithStateInPySpark": "timeMode"}


def goes_by_event_time(plan: Tree, columns: Collection[str]) -> bool:
    """Whether some operator does. `plan`: of a query over streams, as `parse_plan` reads it. `columns`: the event time
    of its inputs."""
    nodes = list(_all(plan))
    names = _followed(nodes, {column.strip("`").lower() for column in columns})
    return any(_is_timed(node, names) for node in nodes)


def _is_timed(node: Tree, names: set[str]) -> bool:
    if node.kind == "DeduplicateWithinWatermark":
        return True
    if "EventTime" in str(node.fields.get(_TIMERS.get(node.kind, ""))):
        return True
    keys = node.children[0] if node.kind == "Distinct" else node
    given = _trees(keys.fields.get(_KEYS[node.kind])) if node.kind in _KEYS else ()
    return any(not names.isdisjoint(_names(each)) for each in given)


def _followed(nodes: Collection[Tree], names: set[str]) -> set[str]:
    """The names, and those of all columns that are made of them."""
    made = [each for node in nodes for each in _made(node)]
    while True:
        more = {name for name, of in made if name not in names and not names.isdisjoint(of)}
        if not more:
            return names
        names = names | more


def _made(node: Tree) -> Iterator[tuple[str, set[str]]]:
    """The columns that a node makes, with the names of those that it makes each of."""
    if node.kind == "Expand":
        outputs = node.trees("output")
        for row in node.fields["projections"]:
            for output, of in zip(outputs, row, strict=False):
                yield output.name.lower(), set(_names(tree_of(of))) if of else set()
    for expression in _expressions(node):
        for each in _all(expression):
            if each.kind == "Alias":
                yield each.name.lower(), set(_names(each.children[0]))


def _expressions(node: Tree) -> Iterator[Tree]:
    for value in node.fields.values():
        yield from _trees(value)


def _trees(value: Any) -> Iterator[Tree]:
    """The expressions in the value of a field: one, or lists of them."""
    if isinstance(value, list) and value:
        if isinstance(value[0], dict) and "num-children" in value[0]:
            yield tree_of(value)
        else:
            for each in value:
                yield from _trees(each)


def _names(expression: Tree) -> Iterator[str]:
    return (each.name.lower() for each in _all(expression) if each.kind == "AttributeReference")


def _all(tree: Tree) -> Iterator[Tree]:
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += node.children
