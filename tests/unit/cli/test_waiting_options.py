"""The options of commands that wait: one form for those that wait unless told otherwise, one for the others. Each
command that changes what runs has one."""

from __future__ import annotations

import pytest

from penstock.cli.commands import COMMANDS
from penstock.cli.lazy import LazyCommand

BY_DEFAULT = {"rescale", "rebalance", "savepoint create", "savepoint restore", "jobs profile"}
ONLY = {"watch", "import"}
WHEN_ASKED = {
    *("jobs apply", "jobs stop", "jobs start", "jobs delete", "restart", "release", "override", "revert", "drain"),
    *("layers patch", "layers edit", "layers drop", "rollout resume", "rollout abort", "apply"),
}


def options(path: str) -> dict[str, bool]:
    """By name of each option about waiting, whether it is a flag."""
    row = next(row for row in COMMANDS if row.path == path)
    given = (param for param in LazyCommand(row).load().params if param.param_type_name == "option")
    return {
        name: param.is_flag
        for param in given
        for name in (*param.opts, *param.secondary_opts)
        if "wait" in name or name == "--timeout"
    }


@pytest.mark.parametrize("path", sorted(BY_DEFAULT))
def test_these_wait_unless_told_otherwise(path: str) -> None:
    assert options(path) == {"--wait": True, "--no-wait": True, "--timeout": False}


@pytest.mark.parametrize("path", sorted(WHEN_ASKED))
def test_these_wait_when_asked(path: str) -> None:
    assert options(path) == {"--wait": True} | ({} if path == "drain" else {"--timeout": False})


@pytest.mark.parametrize("path", sorted(ONLY))
def test_these_do_nothing_but_wait(path: str) -> None:
    assert options(path) == {"--timeout": False}


def test_no_other_command_waits() -> None:
    others = {row.path for row in COMMANDS} - BY_DEFAULT - WHEN_ASKED - ONLY
    assert {path for path in others if options(path)} == set()
