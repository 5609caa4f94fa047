"""Hosts that run as an account of their own: what they need is made accessible to it, and nothing else.

The account owns the checkpoints and each host's scratch folder. It may pass the folders above packages, jars and
Python, and read what all may read. The Task Manager's own files, tokens and keys stay the Task Manager's.
"""

from __future__ import annotations

import os
import pwd
import sys
from pathlib import Path

import penstock
from penstock.config.paths import place_of
from penstock.control.errors import TerminalError
from penstock.control.private import give, let_pass
from penstock.spark.settings import SparkSettings


def prepare(settings: SparkSettings, hosts_folder: Path) -> None:
    """Makes ready what hosts need. Does nothing when they run as this process's own account.

    `hosts_folder`: of their logs and scratch folders. Roots of jobs' paths are made when they are missing. Raises
    TerminalError when there is no such account, or this process may not choose one.
    """
    account = settings.host_user
    if account is None:
        return
    _require(account)
    hosts_folder.mkdir(parents=True, exist_ok=True)
    let_pass(hosts_folder.absolute())
    for checkpoints in _local(settings.checkpoint_root):
        give(checkpoints, account)
    for root in (found for text in settings.path_roots for found in _local(text)):
        if not root.exists():
            root.mkdir(parents=True)
            give(root, account)
    settings.packages_root.mkdir(parents=True, exist_ok=True)
    code = (Path(each).resolve() for each in penstock.__path__)
    for folder in (settings.packages_root, settings.jars, Path(sys.prefix), Path(sys.base_prefix), *code):
        let_pass(folder.absolute())


def _local(path: str) -> list[Path]:
    """The folder that a Hadoop path names, when it is on this machine."""
    place = place_of(path)
    return [Path(place.path)] if place is not None and place.is_local else []


def _require(account: str) -> None:
    try:
        pwd.getpwnam(account)
    except KeyError as error:
        raise TerminalError(f"PENSTOCK_HOST_USER: there is no account {account}") from error
    if os.geteuid() != 0:
        raise TerminalError(f"PENSTOCK_HOST_USER: only root may run hosts as another account, such as {account}")
