"""Whether the files of a job's tables and streams can be read by the host, told before a task runs.

A path that is not there is not judged here: `read_table` and `read_stream` say so. A bucket that is not there is.
"""

from __future__ import annotations

from pyspark.sql import SparkSession

from penstock.config.model import JobConfig
from penstock.control.errors import BrokenTask, Unavailable
from penstock.spark.files import files_of
from penstock.spark.paths import require_allowed
from penstock.spark.settings import SparkSettings
from penstock.spark.stores import PATH_READABLE, STORE_LOGIN
from penstock.spark.tables import substitute


def require_readable_stream(session: SparkSession, name: str, config: JobConfig, settings: SparkSettings) -> None:
    """Raises what `require_readable` raises for the path of a stream, if it has one."""
    path = config.streams[name].path
    if path is not None:
        require_readable(session, f"streams.{name}.path", path, settings)


def require_readable_table(session: SparkSession, name: str, config: JobConfig, settings: SparkSettings) -> None:
    """Raises what `require_readable` raises for the path of a table, and BrokenTask for an argument that it lacks."""
    path = substitute(config.tables[name].path, config.args)
    require_readable(session, f"tables.{name}.path", path, settings)


def require_readable(session: SparkSession, field: str, path: str, settings: SparkSettings) -> None:
    """Raises BrokenTask when the job may not name the path (`below_path_roots`), the host's account or login may not
    read what is there (`path_readable`), the bucket is missing (`path_exists`) or the host has no jars for the store
    (`store_jars`). Raises Unavailable when the store does not answer, or refuses the host's login (`store_login`)."""
    require_allowed(field, path, settings.path_roots)
    try:
        why = files_of(path, session).why_not_readable(path)
    except Unavailable as error:
        rule = error.extra.get("rule", STORE_LOGIN)
        if rule == STORE_LOGIN:
            raise
        raise BrokenTask(f"{field}: {error.detail}", rule=rule) from error
    if why is not None:
        raise BrokenTask(f"{field}: {why}", rule=PATH_READABLE)
