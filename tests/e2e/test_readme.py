"""The tour of README.md, pasted into a terminal."""

from __future__ import annotations

import pytest

from penstock.local.stack import LocalStack
from tests.support.cli.documents import blocks
from tests.support.cli.terminal import Terminal
from tests.tidy.source import REPOSITORY

_LAST = "penstock jobs delete hello"


@pytest.mark.long
def test_every_command_of_the_tour_works(stack: LocalStack, terminal: Terminal) -> None:
    """Rows go in and come out, also after a rescale; nothing of the job stays."""
    [tour] = [block for block in blocks(REPOSITORY / "README.md") if any(line.startswith(_LAST) for line in block)]
    said = {line: terminal(line) for line in tour if not line.startswith(". ")}
    shown = [output for line, output in said.items() if line.startswith("penstock topics consume")]
    assert [output.count('"dest":"SFO"') for output in shown] == [13, 14]
    with stack.client() as client:
        assert "hello" not in [job.job for job in client.list_jobs()]
    for topic in ("flights", "flights-sfo"):
        terminal(f"penstock topics delete {topic}")
