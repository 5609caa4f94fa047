"""Commands that a README shows."""

from __future__ import annotations

import re
from pathlib import Path

_FENCE = "```"
_COMMAND = re.compile(r"`(penstock [^`]+)`")


def blocks(readme: Path) -> list[list[str]]:
    """The lines of each block of commands: those between fences that name no language."""
    found: list[list[str]] = []
    fence: str | None = None
    for line in readme.read_text().splitlines():
        if line.startswith(_FENCE):
            fence = line if fence is None else None
            if fence == _FENCE:
                found.append([])
        elif fence == _FENCE:
            found[-1].append(line)
    return found


def commands(readme: Path, heading: str) -> list[str]:
    """The commands in the sentences of a section."""
    _, _, begun = readme.read_text().partition(f"\n## {heading}\n")
    return _COMMAND.findall(begun.partition("\n## ")[0])
