"""Commands that READMEs show: each exists, takes these options, and names files that are there."""

from __future__ import annotations

import re
import shlex
import socket
from collections.abc import Iterator

import pytest

from penstock.cli.commands import COMMANDS, GROUPS
from penstock.cli.lazy import LazyCommand
from penstock.control.errors import Conflict
from penstock.local.ports import LOOPBACK, require_free
from tests.support.cli.documents import blocks
from tests.tidy.source import REPOSITORY

READMES = (
    "README.md",
    *(
        f"deploy/examples/{path.parent.name}/README.md"
        for path in sorted((REPOSITORY / "deploy" / "examples").glob("*/README.md"))
    ),
)

# What operators read. Words in capitals, and those in angle brackets, stand for what they put in.
PAGES = (
    "README.md",
    "services/ALERTS.md",
    "services/CELL.md",
    "services/POSTGRES.md",
    "services/UPGRADE.md",
    "deploy/README.md",
    "deploy/OUTSIDE.md",
    "libs/penstock/identity/README.md",
    "libs/penstock/store/RESTORE.md",
    "libs/penstock/spark/SECRETS.md",
)
_COMMAND = re.compile(r"`(penstock [^`]+)`|^ *(penstock .+)$", re.MULTILINE)
_PUT_IN = {"FOLDER": ".", "VERSION": "2", "ROLE": "observer", "$name": "console"}
_GAP = re.compile(r"<(\w+)>|\b[A-Z]{3,}\b|\$\w+")
_CHANGED = re.compile(r"\$\{(\w+)[^}]*\}")


def _shown() -> Iterator[tuple[str, str]]:
    """The commands of the pages that are more than a name."""
    names = {*GROUPS, "--version", "--help", *(row.path for row in COMMANDS)}
    for page in PAGES:
        for inline, line in _COMMAND.findall((REPOSITORY / page).read_text().replace("\\\n", " ")):
            words = _CHANGED.sub(r"$\1", " ".join((inline or line).split()))
            said = words.split(" > ")[0].split("; done")[0]
            filled = _GAP.sub(lambda gap: _PUT_IN.get(gap[0], gap[0].strip("<>$").lower()), said)
            if filled.removeprefix("penstock ") not in names:
                yield page, filled


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


@pytest.mark.parametrize(("page", "line"), list(_shown()))
def test_a_command_of_a_page_can_be_parsed(page: str, line: str) -> None:
    words = shlex.split(line, comments=True)[1:]
    row = next(row for row in COMMANDS if words[: len(row.path.split())] == row.path.split())
    assert LazyCommand(row).make_context(row.path, words[len(row.path.split()) :]).params, page


def test_each_example_has_a_readme_of_commands() -> None:
    folders = [path for path in (REPOSITORY / "deploy" / "examples").iterdir() if path.is_dir()]
    assert len(folders) == len(READMES) - 1
    assert all(len(blocks(REPOSITORY / readme)) == 2 for readme in READMES[1:])


def test_the_readme_shows_a_second_stack_as_the_refusal_of_a_port_in_use_does() -> None:
    with socket.create_server((LOOPBACK, 0)) as taken, pytest.raises(Conflict) as refused:
        require_free("kafka", taken.getsockname()[1])
    (options,) = re.findall("`(--port-base .*) FOLDER`", refused.value.detail)
    text = (REPOSITORY / "README.md").read_text()
    assert f"`penstock up {options} other`" in text
    assert "`export PENSTOCK_DATA_DIR=other`" in text
