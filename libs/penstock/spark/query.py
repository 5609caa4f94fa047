"""The query of a task: SQL over its views, or a Python function of its package."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from penstock.config.model import JobConfig
from penstock.config.plan_dataflow import INPUT_MARK
from penstock.control.errors import BrokenTask, PenstockError
from penstock.spark.failures import reason_of
from penstock.spark.functions import asked_for, error_text, failure, function_of, secrets_of
from penstock.spark.settings import SparkSettings
from penstock.spark.sql_guard import require_plain, require_query, without_files_by_name
from penstock.spark.tables import read_table


def result_of(
    session: SparkSession,
    inputs: dict[str, DataFrame],
    config: JobConfig,
    settings: SparkSettings,
    tables: Mapping[str, DataFrame] | None = None,
) -> DataFrame:
    """The streaming frame of the job's query over `inputs` and the job's tables, of which each is a view by its name.
    `tables`: those frames, where the tables have been read already.

    Raises BrokenTask, with Spark's message where there is one, when the query cannot run as written; Unavailable when a
    Python query cannot reach something; and Spark's own errors for a table, e.g. when there is nothing at its path.
    """
    inputs = {name: frame.alias(f"{INPUT_MARK}{name}") for name, frame in inputs.items()}
    if tables is None:
        found = config.tables.items()
        tables = {name: read_table(session, name, table, config.args, settings.path_roots) for name, table in found}
    for name, frame in {**inputs, **tables}.items():
        frame.createOrReplaceTempView(name)
    try:
        frame = _frame(session, inputs, config, settings)
    except PySparkException as error:
        raise BrokenTask(f"query: {reason_of(error)}{_frames(error)}") from error
    if not frame.isStreaming:
        raise BrokenTask("query: the result does not depend on any input", rule="reads_an_input")
    return frame


def _frame(
    session: SparkSession, inputs: dict[str, DataFrame], config: JobConfig, settings: SparkSettings
) -> DataFrame:
    if config.query.sql is not None:
        with without_files_by_name(session):
            require_query(session, config.query.sql, [*config.inputs, *config.streams, *config.tables])
            # `:name` in the text is the argument of that name, as a literal.
            result = session.sql(config.query.sql, args=dict(config.args) or None)
        require_plain(result)
        return result
    function = function_of(str(config.query.python), "query", config, settings, session)
    more = asked_for(function, {"secrets": secrets_of(config, settings)})
    try:
        frame = function(session, dict(inputs), dict(config.args), **more)
    except (PenstockError, PySparkException):
        raise
    except Exception as error:
        raise failure(f"query: {config.query.python} failed", error, "python_runs") from error
    if not isinstance(frame, DataFrame):
        what = f"query: {config.query.python} returned {type(frame).__name__}, not a DataFrame"
        raise BrokenTask(what, rule="returns_a_frame")
    return frame


def _frames(error: PySparkException) -> str:
    """The frames of the package's files in which Spark refused something, each on a line."""
    return "".join(f"\n{frame}" for frame in error_text(error).split("\n")[1:] if frame.startswith("  at "))
