"""What a job names and its container does not have, found without Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from penstock.config.validate import check_merged
from penstock.spark.packages import pack
from penstock.spark.parts import missing_parts
from penstock.spark.settings import SparkSettings
from tests.support.config.jobs import job

PYTHON = {"query": {"sql": None, "python": "rules:f"}}
POSTGRES = {"type": "postgres", "topic": None, "key_groups": None, "key_columns": None, "table": "t"}


@pytest.mark.parametrize(
    ("change", "field", "rule"),
    [
        ({"package": {"name": "rules", "version": "2"}}, "package", "package_exists"),
        (
            {"package": {"name": "rules", "version": "1", "digest": f"sha256:{'0' * 64}"}},
            "package.digest",
            "package_digest",
        ),
        ({"output": POSTGRES | {"connection": "other"}}, "output.connection", "known_connection"),
        (PYTHON | {"secrets": {"token": "absent"}}, "secrets.token", "known_secret"),
    ],
)
def test_a_part_that_the_container_does_not_have_is_named(
    change: dict[str, Any], field: str, rule: str, tmp_path: Path
) -> None:
    (tmp_path / "rules").mkdir()
    (tmp_path / "rules" / "rules.py").write_text("def f(): ...\n")
    pack(tmp_path / "rules", "rules", "1", tmp_path)
    (tmp_path / "present").write_text("value")
    settings = SparkSettings(
        checkpoint_root=str(tmp_path), packages_root=tmp_path, secrets_root=tmp_path, connections={"default": "url"}
    )
    right = {"package": {"name": "rules", "version": "1"}, "output": POSTGRES | {"connection": "default"}}
    right |= PYTHON | {"secrets": {"token": "present"}}
    assert missing_parts(check_merged(job(right), carries=True), settings) == []
    problems = missing_parts(check_merged(job(right | change), carries=True), settings)
    assert [(each.field, each.rule) for each in problems] == [(field, rule)]
