"""The part of a query's result that goes to a side output: rows by `where`, columns by `columns`, one row at a time.

A repeated batch must give each place the same rows, so what Spark makes of the two may not look beyond a row, and not
at what changes: `penstock.config.side_rules` refuses what the text shows, this module what Spark's analysis shows.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from penstock.config.model import MAIN, JobConfig, SideOutput, side_name
from penstock.config.side_rules import SPECIAL_TIMES
from penstock.control.errors import BrokenTask
from penstock.spark.failures import reason_of
from penstock.spark.sinks.context import require_distinct_columns
from penstock.spark.sql_guard import classes_in, foreign_in, require_expression, without_files_by_name

_OPERATOR = re.compile(r'"class":"[\w.$]*\.plans\.logical\.(\w+)"')
_OF_ONE_ROW = {"Project", "Filter"}
_SUBQUERIES = {"ScalarSubquery", "Exists", "ListQuery", "LateralSubquery", "FunctionTableSubqueryArgumentExpression"}
_CLOCK = {"CurrentTimestamp", "Now", "CurrentDate", "CurrentTime", "LocalTimestamp", "CurrentBatchTimestamp"}
# Encrypts with a random vector, though Spark takes it for deterministic.
_CHANCE = {"AesEncrypt"}
# Of the session in which the query was made: the session of a batch has none.
_OF_THE_SESSION = {"ScalaUDF", "VariableReference", "HiveSimpleUDF", "HiveGenericUDF"}
_TIMES = ("date", "timestamp", "timestamp_ntz")


def part_of(frame: DataFrame, side: SideOutput | None) -> DataFrame:
    """The rows and columns of a query's result, or of a batch of it, that go to an output. None: all, to `output`.

    Raises Spark's errors.
    """
    if side is None:
        return frame
    rows = frame if side.where is None else frame.where(F.expr(side.where))
    return rows.selectExpr(*side.columns) if side.columns else rows


def checked_part(frame: DataFrame, config: JobConfig, field: str) -> DataFrame:
    """`part_of` the output with this field. Raises BrokenTask when `where` or `columns` cannot be used."""
    side = side_of(config, field)
    if side is None:
        return frame
    for check in part_checks(frame, config, field):
        check()
    with without_files_by_name(frame.sparkSession):
        return part_of(frame, side)


def part_checks(frame: DataFrame, config: JobConfig, field: str) -> Iterator[Callable[[], None]]:
    """What `checked_part` checks, `where` and `columns` each by itself. Each check raises BrokenTask."""
    side = side_of(config, field)
    if side is None:
        return
    # Without rows and without a stream: all operators but one are those of the expressions.
    empty, owner = frame.sparkSession.createDataFrame([], frame.schema), field.removesuffix(f".{MAIN}")
    if side.where is not None:
        yield partial(_check_where, empty, side.where, f"{owner}.where")
    if side.columns:
        yield partial(_check_columns, empty, side.columns, f"{owner}.columns")


def _check_where(empty: DataFrame, where: str, field: str) -> None:
    with without_files_by_name(empty.sparkSession), _said_of(field):
        require_expression(empty.sparkSession, where, field)
        _require_one_row(empty.where(F.expr(where)), field)


def _check_columns(empty: DataFrame, columns: Sequence[str], field: str) -> None:
    """Where several are wrong, all are told."""
    with without_files_by_name(empty.sparkSession):
        try:
            _check_selected(empty, columns, field)
        except BrokenTask as error:
            told = list(dict.fromkeys(_wrong_ones(empty, columns, field)))
            if len(told) < 2:
                raise
            raise BrokenTask(f"{field}: {'; and '.join(told)}", **error.extra) from error


def _wrong_ones(empty: DataFrame, columns: Sequence[str], field: str) -> Iterator[str]:
    for column in columns:
        try:
            _check_selected(empty, [column], field)
        except BrokenTask as error:
            yield error.detail.removeprefix(f"{field}: ")


def _check_selected(empty: DataFrame, columns: Sequence[str], field: str) -> None:
    with _said_of(field):
        for column in columns:
            require_expression(empty.sparkSession, column, field)
        selected = empty.selectExpr(*columns)
        require_distinct_columns(selected, field)
        _require_one_row(selected, field)


def side_of(config: JobConfig, field: str) -> SideOutput | None:
    """The side output whose output has this field; None for `output`."""
    name = side_name(field)
    return None if name is None else config.side_outputs[name]


@contextmanager
def _said_of(field: str) -> Iterator[None]:
    try:
        yield
    except PySparkException as error:
        raise BrokenTask(f"{field}: {reason_of(error)}") from error


def _require_one_row(part: DataFrame, field: str) -> None:
    plan: Any = part._jdf.queryExecution().analyzed()
    text = str(plan.toJSON())
    classes = classes_in(text)
    foreign = sorted(foreign_in(text) | classes & _OF_THE_SESSION)
    foreign += sorted(name for name in classes if name.startswith("PythonUD"))
    if foreign:
        told = f"{field}: it may run no code of its own, read no file and no variable: {', '.join(foreign)}"
        raise BrokenTask(told, rule="foreign_code")
    above = set(_OPERATOR.findall(text)) - _OF_ONE_ROW - {"LocalRelation"}
    if above or classes & _SUBQUERIES:
        what = ", ".join(sorted(above)) or "a query"
        told = f"{field}: it must see the columns of one row and give one row, without {what}"
        raise BrokenTask(told, rule="per_row")
    if classes & (_CLOCK | _CHANCE) or names_the_time(json.loads(text)) or not plan.deterministic():
        told = f"{field}: it gives another value when a batch is repeated; let the query make it a column"
        raise BrokenTask(told, rule="repeatable")


def names_the_time(plan: Any) -> bool:
    """Whether a plan, as Spark's JSON, makes a date or timestamp of a constant text that may be `now` and the like.

    An expression is a list of nodes there, each followed by its children. Pure.
    """
    if isinstance(plan, dict):
        return any(map(names_the_time, plan.values()))
    if not isinstance(plan, list):
        return False
    casts = (place for place, node in enumerate(plan) if isinstance(node, dict) and node.get("dataType") in _TIMES)
    return any(_may_be_now(_below(plan, place)) for place in casts) or any(map(names_the_time, plan))


def _below(nodes: list[Any], place: int) -> list[dict[str, Any]]:
    """The nodes below one in its list."""
    left, end = int(nodes[place].get("num-children", 0)), place + 1
    while left and end < len(nodes):
        left += int(nodes[end].get("num-children", 0)) - 1
        end += 1
    return nodes[place + 1 : end]


def _may_be_now(nodes: list[dict[str, Any]]) -> bool:
    classes = {str(node.get("class", "")).rpartition(".")[2] for node in nodes}
    if not nodes or "AttributeReference" in classes:
        return False
    if len(nodes) > 1:
        return any(node.get("dataType") == "string" for node in nodes)
    return nodes[0].get("dataType") == "string" and SPECIAL_TIMES.match(str(nodes[0].get("value"))) is not None
