"""Rules for side outputs: each has a place of its own, and takes rows one by one.

A batch that is repeated must give each place the same rows again. So `where` and `columns` look at one row, and neither
at the clock nor at chance. What the text shows is refused here, without Spark; the rest by `spark.sinks.parts`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from sqlglot import exp

from penstock.config.model import DeltaOutput, FilesOutput, JobConfig, KafkaOutput, Output, PostgresOutput
from penstock.config.paths import place_of
from penstock.config.problems import Problem
from penstock.config.sql import SQL_FIELD, Steps, function_names, parse_query
from penstock.config.sql_errors import Frame

UNREPEATABLE = frozenset(
    {
        *("rand", "random", "randn", "randstr", "uniform", "uuid", "shuffle", "monotonically_increasing_id"),
        *("current_date", "curdate", "current_time", "current_timestamp", "current_datetime", "now", "localtimestamp"),
        *(
            "aes_encrypt",
            "localtime",
            "spark_partition_id",
            "input_file_name",
            "input_file_block_start",
            "input_file_block_length",
        ),
    }
)
"""Functions that give another value when the batch is repeated."""
SPECIAL_TIMES = re.compile(r"\s*(now|today|tomorrow|yesterday)\b", re.IGNORECASE)
"""Texts that Spark takes for another time at each run, as a date or timestamp."""
_PARTS = {"expressions", "from_", "where"}
_TABLE = "result"
_MOST_CHARACTERS = 100_000
_STEPS = 100_000
"""For all texts of a job together: a second or less."""


class _Told(NamedTuple):
    rule: str
    text: str


def _expressions(config: JobConfig) -> Iterator[Problem]:
    texts = [
        (f"side_outputs.{name}.{leaf}", sql)
        for name in sorted(config.side_outputs)
        for leaf, sql in _texts(config, name)
    ]
    if sum(len(sql.own) for _, sql in texts) > _MOST_CHARACTERS:
        detail = f"side_outputs: where and columns may have {_MOST_CHARACTERS} characters together"
        yield Problem("side_outputs", "sql_too_long", detail)
        return
    steps = Steps(_STEPS)
    for field, sql in texts:
        told = _refused(sql, steps)
        if told is not None:
            yield Problem(field, told.rule, field + told.text)
        if steps.left < 0:
            return


def _texts(config: JobConfig, name: str) -> Iterator[tuple[str, Frame]]:
    side = config.side_outputs[name]
    if side.where is not None:
        yield "where", Frame(f"SELECT 1 FROM {_TABLE} WHERE ", side.where)
    for text in side.columns:
        yield "columns", Frame("SELECT ", text, f"\nFROM {_TABLE}")


def _places(config: JobConfig) -> Iterator[Problem]:
    """Two outputs of a job in one place would be told apart by nothing there."""
    taken: dict[tuple[object, ...], str] = {}
    for field, output in config.outputs.items():
        place = _place(output)
        if place is None:
            continue
        there = next((other for known, other in taken.items() if _meet(place, known)), None)
        if there is not None:
            leaf, named = f"{field}.{place[0]}", f"{there}.{place[0]}"
            what = "are one place" if place in taken else "are a folder and one in it"
            detail = f"{leaf} and {named} {what}: each output of a job needs a place of its own"
            yield Problem(leaf, "place_taken", detail)
        taken.setdefault(place, field)


def _meet(place: tuple[object, ...], other: tuple[object, ...]) -> bool:
    """Whether two places are one, or a folder is in the other one."""
    if place[0] != other[0] or place[0] != "path":
        return place == other
    one, two = (f"{path}/" for _, path in (place, other))
    return one.startswith(two) or two.startswith(one)


def _place(output: Output) -> tuple[object, ...] | None:
    """The field that says where an output goes, and what is equal where the place is the same."""
    match output:
        case KafkaOutput():
            return "topic", output.cluster, output.topic
        case DeltaOutput() | FilesOutput():
            place = place_of(output.path)
            return "path", output.path if place is None else "{}://{}{}".format(*place)
        case PostgresOutput():
            return "table", output.connection, output.table.removeprefix("public.")
    return None


def _refused(sql: Frame, steps: Steps) -> _Told | None:
    try:
        query = parse_query(sql, steps)
        if isinstance(query, Problem):
            return _Told(query.rule, query.detail.removeprefix(SQL_FIELD))
        return _why_not_one(query) or _why_not_of_a_row(query)
    except RecursionError:
        return _Told("sql_too_deep", " is nested too deeply")


def _why_not_one(query: exp.Query) -> _Told | None:
    given = {name for name, value in query.args.items() if value}
    if not isinstance(query, exp.Select) or not given <= _PARTS or len(query.expressions) != 1:
        return _Told("one_expression", " must be one expression of SQL each")
    if len(list(query.find_all(exp.Table))) != 1 or any(found is not query for found in query.find_all(exp.Query)):
        return _Told("per_row", " may have no query in it: it sees the columns of one row")
    if query.find(exp.Placeholder) is not None:
        return _Told("expression_argument", " may have no :name: the query can give the argument as a column")
    return None


def _why_not_of_a_row(query: exp.Query) -> _Told | None:
    if query.find(exp.AggFunc, exp.Window) is not None:
        return _Told("per_row", " may have no aggregate and no window function: it sees the columns of one row")
    calls = {name for call in query.find_all(exp.Func) for name in function_names(call)}
    casts = [cast.this for cast in query.find_all(exp.Cast) if isinstance(cast.this, exp.Literal)]
    found = sorted(calls & UNREPEATABLE) + [f"'{text.this}'" for text in casts if SPECIAL_TIMES.match(text.this)]
    if found:
        told = f": {found[0]} gives another value when a batch is repeated; let the query make it a column"
        return _Told("repeatable", told)
    return None


SIDE_RULES = (_places, _expressions)
"""Of all side outputs."""
