"""SQL of a job reads its inputs and tables and runs no other code: seen in what Spark makes of it, not in its text.

The rules of a write (`penstock.config.sql`) see the text. Spark has other ways to write a name of a function or file.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from penstock.config.sql import FOREIGN_CODE as CODE_BY_NAME
from penstock.config.sql import FOREIGN_FILES as FILES_BY_NAME
from penstock.control.errors import BrokenTask
from penstock.control.texts import likely

_FILES_BY_NAME = "spark.sql.runSQLOnFiles"
_CLASS = re.compile(r'"class":"[\w.$]*?(\w+)\$?"')
FOREIGN_CODE = frozenset({"CallMethodViaReflection", "TryReflect", "ScriptTransformation"})
"""Expressions and operators that run any method of the JVM, or a program. A `ScalaUDF` is Penstock's own: SQL can name
none."""
FOREIGN_FILES = frozenset(
    {"FromProtobuf", "ToProtobuf", "ProtobufDataToCatalyst", "CatalystDataToProtobuf", "XmlToStructs", "SchemaOfXml"}
)
"""Expressions that read a file that they, or options which the plan does not show, name."""
TABLE_FUNCTIONS = frozenset(
    {"explode", "explode_outer", "posexplode", "posexplode_outer", "inline", "inline_outer", "stack", "json_tuple"}
    | {"variant_explode", "variant_explode_outer"}
)
"""Functions in FROM and LATERAL VIEW that make rows of their arguments alone. Delta's read tables by their paths."""
XML_READERS = "XPath"
"""How the names of expressions begin that read XML, and with it what its DOCTYPE names, and settings of the JVM."""
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


def require_query(session: SparkSession, text: str, names: Collection[str]) -> None:
    """Refuses a text that may run code or read a file while Spark resolves it: by what Spark's own parser finds in it,
    which may be something else than the rules of a write have seen.

    `names`: the relations that it may read. Raises Spark's ParseException for a text that is no query: Spark would run
    a command at once. Raises BrokenTask with the rules `unknown_relation`, `foreign_code`, `foreign_files` and
    `computed_name`.
    """
    parsed = _parsed(session).of(session._jsparkSession, text)
    unknown = set(parsed.relations()) - {name.lower() for name in names}
    if unknown:
        told = f"query: SQL reads {', '.join(sorted(unknown))}: neither an input, a table of the job nor a CTE; "
        told += likely(min(unknown), names)
        raise BrokenTask(told, rule="unknown_relation")
    strange = set(parsed.tableFunctions()) - TABLE_FUNCTIONS
    if strange:
        raise BrokenTask(f"query: SQL may not read {', '.join(sorted(strange))}(...)", rule="unknown_relation")
    _require_known_functions("query", parsed)


def require_expression(session: SparkSession, text: str, field: str) -> None:
    """The same for an expression, which is a field of the configuration and may read no relation."""
    parsed = _parsed(session).ofExpression(session._jsparkSession, text)
    if [*parsed.relations(), *parsed.tableFunctions()]:
        raise BrokenTask(f"{field}: it must see the columns of one row, without a query", rule="per_row")
    _require_known_functions(field, parsed)


def _parsed(session: SparkSession) -> Any:
    jvm: Any = session._jvm
    return jvm.io.penstock.spark42.ParsedQuery


def _require_known_functions(field: str, parsed: Any) -> None:
    functions = set(parsed.functions())
    programs = {"transform ... using"} if parsed.runsPrograms() else set()
    _refuse(field, functions & CODE_BY_NAME | programs, functions & FILES_BY_NAME)
    if parsed.computesNames():
        raise BrokenTask(f"{field}: write the name itself in place of IDENTIFIER(...)", rule="computed_name")


def _refuse(field: str, code: Collection[str], files: Collection[str]) -> None:
    if code:
        raise BrokenTask(f"{field}: SQL may not run code of its own: {', '.join(sorted(code))}", rule="foreign_code")
    if files:
        told = f"{field}: SQL may not read files that the job does not name: {', '.join(sorted(files))}"
        raise BrokenTask(told, rule="foreign_files")


def foreign_in(plan: str) -> set[str]:
    """The classes in a plan, as Spark's JSON, that run foreign code or read files, and options that name files."""
    classes = classes_in(plan)
    found = {name for name in classes if name in FOREIGN_CODE | FOREIGN_FILES or name.startswith(XML_READERS)}
    return found | {name for name in FILE_OPTIONS if name in plan.lower()}


def classes_in(plan: str) -> set[str]:
    """The names of the classes of Spark in a plan, given as JSON."""
    return set(_CLASS.findall(plan))


def require_plain(frame: DataFrame) -> None:
    """Raises BrokenTask when the plan of a SQL query runs foreign code or reads a file that the job does not name."""
    plan = str(frame._jdf.queryExecution().analyzed().toJSON())
    found = foreign_in(plan)
    _refuse("query", found & FOREIGN_CODE, found - FOREIGN_CODE)
