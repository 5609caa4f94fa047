"""The query of a task: SQL over its views, or a Python function of its package."""

from __future__ import annotations

import importlib
import inspect
import os
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from penstock.config.model import JobConfig
from penstock.config.plan_dataflow import INPUT_MARK
from penstock.control.errors import BrokenTask, PenstockError, Unavailable
from penstock.spark.dependencies import unpack
from penstock.spark.failures import python_reason, reason_of
from penstock.spark.packages import ensure
from penstock.spark.parts import require_secrets
from penstock.spark.settings import SparkSettings
from penstock.spark.sql_guard import require_plain, without_files_by_name
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
            # `:name` in the text is the argument of that name, as a literal.
            result = session.sql(config.query.sql, args=dict(config.args) or None)
        require_plain(result)
        return result
    function = _function(config, settings, session)
    secrets = secrets_of(config, settings)
    more = {"secrets": secrets} if _takes_secrets(function) else {}
    try:
        frame = function(session, dict(inputs), dict(config.args), **more)
    except (PenstockError, PySparkException):
        raise
    except Exception as error:
        raise _failure(f"query: {config.query.python} failed", error, "python_runs") from error
    if not isinstance(frame, DataFrame):
        what = f"query: {config.query.python} returned {type(frame).__name__}, not a DataFrame"
        raise BrokenTask(what, rule="returns_a_frame")
    return frame


def secrets_of(config: JobConfig, settings: SparkSettings) -> dict[str, str]:
    """The values of a job's secrets by the names that its code knows. Raises BrokenTask when one is missing."""
    require_secrets(config, settings.secrets)
    return {purpose: settings.secrets[name] for purpose, name in config.secrets.items()}


def _takes_secrets(function: Callable[..., Any]) -> bool:
    try:
        return "secrets" in inspect.signature(function).parameters
    except (TypeError, ValueError):
        return False


def _function(config: JobConfig, settings: SparkSettings, session: SparkSession) -> Callable[..., Any]:
    """The function that `query.python` names, from the job's package.

    A host loads one version of a module. Raises BrokenTask when another version is loaded or the function is missing.
    """
    module_name, _, function_name = str(config.query.python).partition(":")
    package = ensure(config.package, settings.packages_root)
    if package is not None:
        _make_importable([package, *_dependencies(package, settings)], session)
    try:
        module = importlib.import_module(module_name)
        function: Callable[..., Any] = getattr(module, function_name)
    except Exception as error:
        raise _failure(f"query: {config.query.python}", error, "python_imports") from error
    _require_origin(module, package)
    return function


def _failure(what: str, error: Exception, rule: str) -> PenstockError:
    """An error of a package's code. Something that does not answer now says nothing against the package."""
    told = f"{what}: {_told(error)}"
    return Unavailable(told) if isinstance(error, ConnectionError | TimeoutError) else BrokenTask(told, rule=rule)


def _told(error: Exception) -> str:
    """The error of a package's code, with the frames of its own files."""
    return python_reason("".join(traceback.format_exception(error, chain=False)))


def _frames(error: PySparkException) -> str:
    """The frames of the package's files in which Spark refused something, each on a line."""
    return "".join(f"\n{frame}" for frame in _told(error).split("\n")[1:] if frame.startswith("  at "))


def _dependencies(package: Path, settings: SparkSettings) -> list[Path]:
    """The folder with the package's dependencies, if it has any. Raises BrokenTask when this host cannot use them."""
    site = unpack(package, settings.spark_local_dir)
    if site is None:
        return []
    if not settings.spark_master.startswith("local"):
        raise BrokenTask(
            f"package: {package.name} has dependencies, which executors on other machines "
            f"({settings.spark_master}) do not get: install them there, and pack the package without them",
            rule="package_dependencies",
        )
    return [site]


def _make_importable(entries: Sequence[Path], session: SparkSession) -> None:
    """Puts the package and its dependencies on the path of this process and of Spark's Python workers."""
    fresh = [str(entry) for entry in entries]
    if fresh[0] not in sys.path:
        sys.path[:0] = fresh
        importlib.invalidate_caches()
    session.sparkContext.environment["PYTHONPATH"] = os.pathsep.join(fresh)


def _require_origin(module: Any, package: Path | None) -> None:
    file = getattr(module, "__file__", None)
    if package is not None and (file is None or not Path(file).is_relative_to(package)):
        raise BrokenTask(
            f"query: this host has already loaded {module.__name__} from {file}, which is not the job's package"
        )
