"""The cell that all tests belong to: its files, and callers of it."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import Iterable
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import httpx

from penstock.identity.folder import IdentityFolder
from penstock.identity.outgoing import Outgoing, StatementAuth
from penstock.identity.process import ProcessIdentity
from penstock.identity.roles import Caller, Role, caller_of

CELL = "tests"
VARIABLE = "PENSTOCK_IDENTITY_DIR"


def make_cell(folder: Path) -> IdentityFolder:
    """An identity folder with an authority and a secret."""
    made = IdentityFolder(folder)
    made.create(CELL, datetime.now(UTC))
    return made


def mixed(folder: IdentityFolder, callers: Iterable[Caller], hosts: Iterable[str]) -> dict[Path, bytes]:
    """New certificates beside the keys before, as when only half of the files were brought. Returns the new keys."""
    keys = {}
    for each in callers:
        path = folder.path / f"{each.file_name}.key"
        before = path.read_bytes()
        folder.issue(each, hosts, datetime.now(UTC))
        keys[path] = path.read_bytes()
        path.write_bytes(before)
    return keys


@cache
def session_folder() -> Path:
    """The identity of this run of the tests, which every process that a test starts finds by its environment."""
    folder = Path(tempfile.mkdtemp(prefix="penstock-identity-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    make_cell(folder)
    return folder


@cache
def identity(caller: str) -> ProcessIdentity:
    """A process of the tests' cell: `shard_manager`, or `task_manager/c1`."""
    return ProcessIdentity(session_folder(), caller_of(caller))


@cache
def outgoing(caller: str) -> Outgoing:
    """What a client needs to call as this process."""
    return Outgoing(identity(caller))


@cache
def auth(caller: str, folder: Path | None = None) -> httpx.Auth:
    """Makes single calls of `httpx` those of this process, of the tests' cell or that of another folder."""
    return StatementAuth(ProcessIdentity(folder or session_folder(), caller_of(caller)))


def auth_of_container(name: str, folder: Path | None = None) -> httpx.Auth:
    """The same for a Task Manager."""
    return auth(str(Caller(Role.TASK_MANAGER, name)), folder)


OBSERVER = str(Role.OBSERVER)


def container(name: str) -> Outgoing:
    """A Task Manager's calls."""
    return outgoing(str(Caller(Role.TASK_MANAGER, name)))
