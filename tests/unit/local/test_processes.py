"""Processes are found by their words, and one that ends meanwhile is just not there."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import psutil
import pytest

from penstock.control.process import wait_until
from penstock.local.processes import children_with, find_process

_WORD = "a-word-of-this-test"


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    """A process of this one that waits for its standard input to close."""
    command = [sys.executable, "-c", "import sys; sys.stdin.read()", _WORD]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
        yield process
        process.kill()


def test_a_child_is_found_by_its_words(child: subprocess.Popen[bytes]):
    me = psutil.Process().pid
    wait_until(lambda: children_with(me, [_WORD]), 10, "the child to have its command line")
    assert [found.pid for found in children_with(me, [_WORD])] == [child.pid]
    assert children_with(me, [_WORD, "another"]) == []


def test_a_zombie_is_not_found(child: subprocess.Popen[bytes]):
    process = psutil.Process(child.pid)
    child.kill()
    wait_until(lambda: process.status() == psutil.STATUS_ZOMBIE, 10, "the child to be a zombie")
    assert find_process(child.pid, []) is None
    assert children_with(psutil.Process().pid, [_WORD]) == []


def test_a_parent_that_has_ended_has_no_children(child: subprocess.Popen[bytes]):
    child.kill()
    child.wait()
    assert children_with(child.pid, []) == []
