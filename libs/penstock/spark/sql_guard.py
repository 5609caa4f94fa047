"""SQL of a job reads its inputs and tables and runs no other code: seen in what Spark makes of it, not in its text.

The rules of a write (`penstock.config.sql`) see the text. Spark has other ways to write a name of a function or file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from penstock.control.errors import BrokenTask

_FILES_BY_NAME = "spark.sql.runSQLOnFiles"
_CLASS = re.compile(r'"class":"[\w.$]*?(\w+)\$?"')
FOREIGN_CODE = frozenset({"CallMethodViaReflection", "TryReflect", "ScriptTransformation"})
"""Expressions and operators that run any method of the JVM, or a program. A `ScalaUDF` is Penstock's own: SQL can name
none."""
FOREIGN_FILES = frozenset(
    {"FromProtobuf", "ToProtobuf", "ProtobufDataToCatalyst", "CatalystDataToProtobuf", "XmlToStructs", "SchemaOfXml"}
)
"""Expressions that read a file that they, or options which the plan does not show, name."""
FILE_OPTIONS = ("avroschemaurl",)
"""Options of functions, in lower case, that name a file."""


@contextmanager
def without_files_by_name(session: SparkSession) -> Iterator[None]:
    """Within the block no SQL reads ``text.`/path` `` and the like. Penstock's own statements do, so only there."""
    before = session.conf.get(_FILES_BY_NAME)
    session.conf.set(_FILES_BY_NAME, "false")
    try:
        yield
    finally:
        session.conf.set(_FILES_BY_NAME, str(before))


def require_query(session: SparkSession, text: str) -> None:
    """Raises Spark's ParseException for a text that is no query: Spark would run a command at once, before anybody
    could see what it made of it."""
    java: Any = session._jsparkSession
    java.sessionState().sqlParser().parseQuery(text)


def classes_in(plan: str) -> set[str]:
    """The names of the classes of Spark in a plan, given as JSON."""
    return set(_CLASS.findall(plan))


def require_plain(frame: DataFrame) -> None:
    """Raises BrokenTask when the plan of a SQL query runs foreign code or reads a file that the job does not name."""
    plan = str(frame._jdf.queryExecution().analyzed().toJSON())
    classes = classes_in(plan)
    code, files = classes & FOREIGN_CODE, classes & FOREIGN_FILES
    if code:
        raise BrokenTask(f"query: SQL may not run code of its own: {', '.join(sorted(code))}", rule="foreign_code")
    options = [name for name in FILE_OPTIONS if name in plan.lower()]
    if files or options:
        found = ", ".join(sorted(files) + options)
        raise BrokenTask(f"query: SQL may not read files that the job does not name: {found}", rule="foreign_files")
