"""Tables and streams in folders of this machine that the host's account may not read: an analysis says so, with field
and rule. On S3: `tests/integration/spark/test_s3_plans.py`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.config.model import JobConfig
from penstock.spark.analysis.analyse import analyse
from penstock.spark.task import Runtime
from tests.support.other_account import as_nobody, open_folder
from tests.support.spark.streams import add_file, stream_config

SQL = "SELECT v, name FROM events JOIN names USING (k)"


@pytest.fixture
def folder() -> Iterator[Path]:
    with open_folder() as made:
        add_file(made / "events", [{"k": 1, "v": 1}])
        (made / "names").mkdir()
        (made / "names" / "1.csv").write_text("k,name\n1,one\n")
        yield made


def config_of(folder: Path) -> JobConfig:
    stream = {"format": "json", "path": str(folder / "events"), "value_schema": "k BIGINT, v BIGINT"}
    table = {"path": "${root}/names", "format": "csv", "table_schema": "k BIGINT, name STRING"}
    more = {"tables": {"names": table}, "args": {"root": str(folder)}}
    return stream_config(stream, SQL, {"path": str(folder / "out")}, **more)


def problems(runtime: Runtime, folder: Path) -> set[tuple[str, str, str]]:
    with as_nobody():
        found = analyse(runtime.spark, runtime.settings, "job", config_of(folder)).problems
    return {(each.field, each.rule, each.detail) for each in found if not each.field.startswith("output")}


def test_what_the_account_may_not_read_is_named(runtime: Runtime, folder: Path) -> None:
    """1. All may be read. 2. The folder of the stream is closed, and a file of the table. 3. The stream is gone: that
    is another rule."""
    assert problems(runtime, folder) == set()
    events, file = folder / "events", folder / "names" / "1.csv"
    events.chmod(0)
    file.chmod(0)
    said = "the host's account may not read"
    assert problems(runtime, folder) == {
        ("streams.events.path", "path_readable", f"streams.events.path: {said} {events}"),
        ("tables.names.path", "path_readable", f"tables.names.path: {said} {file}"),
    }
    events.chmod(0o755)
    events.rename(folder / "elsewhere")
    file.chmod(0o644)
    ((field, rule, detail),) = problems(runtime, folder)
    assert (field, rule) == ("streams.events.path", "table_exists")
    assert f"there is no folder {events}" in detail
