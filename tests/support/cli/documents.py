"""Commands that a README shows."""

from __future__ import annotations

import re
from pathlib import Path

_BLOCK = re.compile(r"^```\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(readme: Path) -> list[list[str]]:
    """The lines of each block of commands."""
    return [block.strip().splitlines() for block in _BLOCK.findall(readme.read_text())]
