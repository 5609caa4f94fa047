"""Files that only their owner reads, and folders that another account may pass or has."""

from __future__ import annotations

import os
import pwd
import stat
from pathlib import Path

PRIVATE_FILE = 0o600
PRIVATE_FOLDER = 0o700
PRIVATE_UMASK = 0o077
"""Of a process whose files are for its owner only."""
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def open_private(path: str, flags: int) -> int:
    """An opener for `open`: a file that it makes is for its owner only."""
    return os.open(path, flags, PRIVATE_FILE)


def write_private(path: Path, content: bytes) -> None:
    """Writes a file that only its owner reads, also where there was one that others could read."""
    with open(path, "wb", opener=open_private) as stream:
        os.fchmod(stream.fileno(), PRIVATE_FILE)
        stream.write(content)


def keep_private(path: Path) -> None:
    """From now on only the owner reads a file, which is made when it is missing and otherwise keeps its content."""
    with open(path, "ab", opener=open_private) as stream:
        os.fchmod(stream.fileno(), PRIVATE_FILE)


def make_private(folder: Path) -> None:
    """Makes a folder that only its owner enters, with the folders above it; one of another account stays as it is."""
    folder.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
    if folder.stat().st_uid == os.geteuid():
        folder.chmod(PRIVATE_FOLDER)


def close_to_others(folder: Path) -> None:
    """Takes from other accounts what is directly in a folder, and so all below. What this process may not change, and
    links, stay as they are."""
    for each in folder.iterdir():
        found = each.lstat()
        if stat.S_ISLNK(found.st_mode) or os.geteuid() not in (0, found.st_uid):
            continue
        each.chmod(stat.S_IMODE(found.st_mode) & ~_OTHERS)


def let_pass(folder: Path) -> None:
    """Lets all accounts pass, not read, a folder and those above it. Only the owner and root may."""
    for each in (folder, *folder.parents):
        mode = each.stat().st_mode
        if not mode & stat.S_IXOTH:
            each.chmod(mode | stat.S_IXOTH)


def give(folder: Path, account: str) -> None:
    """Makes a folder, and what is in it, the account's, and lets it pass the folders above. Only root may. A new folder
    is for the account only.

    A folder that is the account's already is not looked through.
    """
    folder.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
    let_pass(folder.parent)
    found = pwd.getpwnam(account)
    if folder.stat().st_uid == found.pw_uid:
        return
    for parent, folders, files in os.walk(folder):
        for name in (*folders, *files):
            os.chown(Path(parent) / name, found.pw_uid, found.pw_gid, follow_symlinks=False)
    # Last: whoever is killed meanwhile begins again.
    os.chown(folder, found.pw_uid, found.pw_gid)
