"""The files of Compose by the schema of the Compose Specification (`make test-long`)."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
import yaml

from tests.support.deploy.chart import tools
from tests.tidy.source import REPOSITORY

pytestmark = pytest.mark.long
FILES = [REPOSITORY / "docker-compose.yml", *sorted((REPOSITORY / "deploy" / "compose").glob("*.yml"))]


@pytest.fixture(scope="module")
def schema() -> jsonschema_rs.Validator:
    return jsonschema_rs.validator_for(json.loads((tools() / "compose.json").read_text()))


def content(path: Path) -> dict[str, Any]:
    return dict(yaml.safe_load(path.read_text()))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_each_file_fits_the_schema(schema: jsonschema_rs.Validator, path: Path) -> None:
    assert [f"{error.instance_path}: {error.message}" for error in schema.iter_errors(content(path))] == []


@pytest.mark.parametrize(
    ("key", "value"),
    [("helthcheck", {}), ("depends_on", {"postgres": {"condition": "service_well"}}), ("ports", [{"targets": 1}])],
)
def test_what_does_not_fit_is_found(schema: jsonschema_rs.Validator, key: str, value: object) -> None:
    found = content(FILES[0])
    found["services"]["console"][key] = value
    assert not schema.is_valid(found)


def test_a_package_with_another_digest_is_refused(tmp_path: Path) -> None:
    lock = tmp_path / "schema.lock"
    package, member, _ = (REPOSITORY / "deploy" / "compose" / "schema.lock").read_text().split()
    lock.write_text(f"{package} {member} --hash=sha256:{'0' * 64}\n")
    script = REPOSITORY / "deploy" / "setup" / "compose_schema.py"
    done = subprocess.run(
        [sys.executable, script, lock, tmp_path / "schema.json"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, (tmp_path / "schema.json").exists()) == (1, False)
    assert "names another one" in done.stderr
