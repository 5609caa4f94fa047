"""The files that pages load: the console's own, and the scripts that the set-up fetched."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

STATIC = Path(__file__).parent / "static"


def addresses(fetched: list[Path]) -> Mapping[str, str]:
    """The address of each file by its name, another one when its content changes. `fetched`: those below `/web`."""
    own = {file.name: f"/static/{_versioned(file)}" for file in STATIC.iterdir()}
    return own | {file.name: f"/web/{_versioned(file)}" for file in fetched}


def _versioned(file: Path) -> str:
    return f"{file.name}?{hashlib.sha256(file.read_bytes()).hexdigest()[:12]}"
