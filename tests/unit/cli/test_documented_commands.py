"""Commands that READMEs show: each exists, takes these options, and names files that are there."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

import pytest

from penstock.cli.commands import COMMANDS
from penstock.cli.lazy import LazyCommand
from tests.support.cli.documents import blocks
from tests.tidy.source import REPOSITORY

READMES = (
    "README.md",
    *(
        f"deploy/examples/{path.parent.name}/README.md"
        for path in sorted((REPOSITORY / "deploy" / "examples").glob("*/README.md"))
    ),
)


def _commands() -> Iterator[tuple[str, str]]:
    for readme in READMES:
        for block in blocks(REPOSITORY / readme):
            yield from ((readme, line) for line in block if line.startswith("penstock "))


@pytest.mark.parametrize(("readme", "line"), list(_commands()))
def test_a_documented_command_can_be_parsed(readme: str, line: str) -> None:
    words = shlex.split(line, comments=True)[1:]
    row = next(row for row in COMMANDS if words[: len(row.path.split())] == row.path.split())
    context = LazyCommand(row).make_context(row.path, words[len(row.path.split()) :])
    assert context.params
    for word in words:
        if word.startswith("deploy/"):
            assert (REPOSITORY / word).exists(), word


def test_each_example_has_a_readme_of_commands() -> None:
    folders = [path for path in (REPOSITORY / "deploy" / "examples").iterdir() if path.is_dir()]
    assert len(folders) == len(READMES) - 1
    assert all(len(blocks(REPOSITORY / readme)) == 2 for readme in READMES[1:])
