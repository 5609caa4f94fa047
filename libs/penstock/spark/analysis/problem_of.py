"""An error that building a job's query raised, as a problem with a field: the rule, the reason, what to do."""

from __future__ import annotations

import re

from pyspark.errors import PySparkException

from penstock.config.problems import Problem
from penstock.control.errors import BrokenTask
from penstock.spark.failures import reason_of

# How a BrokenTask names its field.
_FIELD = re.compile(
    r"(side_outputs|inputs|streams|tables|output|query|package|output_mode|task_count|args)((?:\.\w+)*): "
)
_NO_NAME = "_LEGACY_"
_TABLE_MISSING = {
    "DELTA_MISSING_DELTA_TABLE",
    "DELTA_PATH_DOES_NOT_EXIST",
    "DELTA_TABLE_NOT_FOUND",
    "PATH_NOT_FOUND",
}
_HINTS = {
    "INVALID_SUBQUERY_EXPRESSION.STREAMING_QUERY": "Join the stream instead",
    "PATH_NOT_FOUND": "If another job makes it later, write with verify=false",
    "STREAMING_OUTPUT_MODE.UNSUPPORTED_OPERATION": (
        "For append mode give the input an event_time_column and a watermark_delay, and group by a window of that "
        "column; or choose another output_mode"
    ),
    "TABLE_OR_VIEW_NOT_FOUND": "A query reads the job's inputs and tables by their names",
}


def problem_of(error: Exception, where: str, rule: str, query: str) -> Problem:
    """The problem with the field `where`, unless the error names another; `rule` counts when the error has none.

    `query` is the field of the job's query.
    """
    text, condition = reason_of(error), condition_of(error)
    field = where
    named = _FIELD.match(text)
    if named is not None:
        field = query if named[0] == "query: " else f"{named[1]}{named[2]}"
        text = text[named.end() :]
    if condition in _HINTS:
        text = f"{text}. {_HINTS[condition]}"
    return Problem(field, _rule(error, condition) or rule, f"{field}: {text}")


def condition_of(error: BaseException) -> str | None:
    """Spark's name for what is wrong, of the first error in the chain that has one."""
    current: BaseException | None = error
    while current is not None:
        condition = current.getCondition() if isinstance(current, PySparkException) else None
        if condition and not condition.startswith(_NO_NAME):
            return str(condition)
        current = current.__cause__
    return None


def _rule(error: Exception, condition: str | None) -> str | None:
    if condition in _TABLE_MISSING:
        return "table_exists"
    if condition is not None:
        return condition.partition(".")[0].lower()
    return str(error.extra["rule"]) if isinstance(error, BrokenTask) and "rule" in error.extra else None
