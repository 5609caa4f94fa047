"""The schema at versions before the newest, and migrations of a test's own after it."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import pytest
from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import Connection

from penstock.store import migrate

_OWN = "9000"
_SCRIPT = """
from pathlib import Path

from alembic import op

revision, down_revision, branch_labels, depends_on = "{revision}", "{before}", None, None


def upgrade():
    op.get_bind().exec_driver_sql({statements!r}, execution_options={{"no_parameters": True}})
"""


def versions() -> list[str]:
    """All versions of the schema, the oldest first."""
    return [script.revision for script in ScriptDirectory.from_config(_config()).walk_revisions()][::-1]


def upgrade_to(connection: Connection, version: str) -> None:
    """Brings the database of a connection to a version, within its transaction."""
    config = _config()
    config.attributes["connection"] = connection
    command.upgrade(config, version)


def add_migration(monkeypatch: pytest.MonkeyPatch, folder: Path, statements: str) -> None:
    """From now on `upgrade` has a migration of the test's own after the newest."""
    before = versions()[-1]
    (folder / "own.py").write_text(_SCRIPT.format(revision=_OWN, before=before, statements=statements))
    monkeypatch.setattr(migrate, "_config", lambda: _config(folder))
    monkeypatch.setattr(migrate, "head", lambda: _OWN)


def _config(*folders: Path) -> Config:
    root = files("migrations")
    config = Config()
    config.set_main_option("script_location", str(root))
    config.set_main_option("path_separator", "newline")
    config.set_main_option("version_locations", "\n".join(str(each) for each in (root / "versions", *folders)))
    return config
