"""What other accounts of the machine may do with files and folders."""

from __future__ import annotations

import stat
from pathlib import Path

from penstock.control.private import close_to_others
from penstock.local.folder import OwnedFolder


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_what_is_in_a_folder_is_closed_to_others(tmp_path: Path) -> None:
    """Of a folder that is there its content is out of reach, so it may stay. What a link leads to is another's."""
    data, elsewhere = tmp_path / "data", tmp_path / "elsewhere"
    for folder in (data / "kafka", elsewhere):
        folder.mkdir(parents=True)
        folder.chmod(0o755)
    (data / "facts.json").write_text("{}")
    (data / "facts.json").chmod(0o644)
    (data / "link").symlink_to(elsewhere)
    close_to_others(data)
    assert {path.name: _mode(path) for path in data.iterdir()} == {"kafka": 0o700, "facts.json": 0o600, "link": 0o755}


def test_a_folder_with_an_owner_is_for_its_account(tmp_path: Path) -> None:
    (tmp_path / "kafka").mkdir(mode=0o755)
    folder = OwnedFolder(tmp_path / "kafka")
    folder.claim()
    folder.release()
    assert _mode(tmp_path / "kafka") == 0o700
