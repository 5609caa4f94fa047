"""Functions of a job's package: loaded, and called with what they ask for by the names of their parameters."""

from __future__ import annotations

import importlib
import inspect
import sys
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from penstock.config.model import JobConfig
from penstock.control.errors import BrokenTask, PenstockError, Unavailable
from penstock.spark.environments import require_environment
from penstock.spark.failures import python_reason
from penstock.spark.packages import ensure
from penstock.spark.parts import require_secrets
from penstock.spark.settings import SparkSettings


def function_of(
    reference: str, field: str, config: JobConfig, settings: SparkSettings, session: SparkSession
) -> Callable[..., Any]:
    """The function that `module:function` names, from the job's package. `field`: the field of the configuration that
    names it, for errors.

    A host loads one version of a module. Raises BrokenTask when another version is loaded or the function is missing.
    """
    module_name, _, function_name = reference.partition(":")
    package = ensure(config.package, settings.packages_root)
    if package is not None:
        require_environment(package, settings.package_environment, settings.spark_master)
        _make_importable(package, session)
    try:
        module = importlib.import_module(module_name)
        function: Callable[..., Any] = getattr(module, function_name)
    except Exception as error:
        raise failure(f"{field}: {reference}", error, "python_imports") from error
    _require_origin(module, package, field)
    return function


def asked_for(function: Callable[..., Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the values that a function has a parameter for."""
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return {}
    return {name: value for name, value in values.items() if name in parameters}


def secrets_of(config: JobConfig, settings: SparkSettings) -> dict[str, str]:
    """The values of a job's secrets by the names that its code knows. Raises BrokenTask when one is missing."""
    require_secrets(config, settings.secrets)
    return {purpose: settings.secrets[name] for purpose, name in config.secrets.items()}


def failure(what: str, error: Exception, rule: str) -> PenstockError:
    """An error of a package's code. Something that does not answer now says nothing against the package."""
    said = f"{what}: {error_text(error)}"
    return Unavailable(said) if isinstance(error, ConnectionError | TimeoutError) else BrokenTask(said, rule=rule)


def error_text(error: Exception) -> str:
    """The error of a package's code, with the frames of its own files."""
    return python_reason("".join(traceback.format_exception(error, chain=False)))


def _make_importable(package: Path, session: SparkSession) -> None:
    """Puts the package on the path of this process and of Spark's Python workers. Its dependencies are in the Python
    that both are of."""
    if str(package) not in sys.path:
        sys.path.insert(0, str(package))
        importlib.invalidate_caches()
    session.sparkContext.environment["PYTHONPATH"] = str(package)


def _require_origin(module: Any, package: Path | None, field: str) -> None:
    file = getattr(module, "__file__", None)
    if package is not None and (file is None or not Path(file).is_relative_to(package)):
        raise BrokenTask(
            f"{field}: this host has already loaded {module.__name__} from {file}, which is not the job's package"
        )
