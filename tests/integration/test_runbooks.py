"""Statements that pages give to operators do what the pages say."""

from __future__ import annotations

import re
from typing import Any

from sqlalchemy import text

from penstock.store.engine import transaction
from tests.support.job_service.service import CONFIG, job_service
from tests.tidy.source import REPOSITORY

_SQL = re.compile(r"```sql\n(.*?)```", re.DOTALL)


def test_the_paths_in_use_are_found_before_an_upgrade(database_url: str) -> None:
    tables: dict[str, Any] = {"t": {"path": "/old/t", "format": "csv"}, "u": {"path": "/old/u", "format": "csv"}}
    (statement,) = _SQL.findall((REPOSITORY / "services" / "UPGRADE.md").read_text())
    with job_service(database_url) as running:
        running.client().put_job("a", {**CONFIG, "tables": tables})
        running.client().put_job("b", {**CONFIG, "output": {"type": "files", "path": "/out/b"}})
        running.client().put_job("c", CONFIG | {"output": {"type": "kafka", "topic": "other"}})
        with transaction(running.engine) as connection:
            found = [tuple(row) for row in connection.execute(text(statement))]
    assert found == [
        ("a", "tables.t.path", "/old/t"),
        ("a", "tables.u.path", "/old/u"),
        ("b", "output.path", "/out/b"),
    ]
