"""Commands that a README shows."""

from __future__ import annotations

from pathlib import Path

_FENCE = "```"


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
