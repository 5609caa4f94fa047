"""`penstock packages`: Python code for jobs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from penstock.cli.output import out, say
from penstock.cli.settings import CliSettings
from penstock.spark import packages


def pack(
    folder: Annotated[Path, typer.Argument(help="folder of Python modules")],
    name: Annotated[str, typer.Argument(help="name of the package")],
    version: Annotated[str, typer.Argument(help="version; a packed version never changes")],
) -> None:
    """Pack a folder of Python modules; print what to write as the job's `package`."""
    path, digest = packages.pack(folder, name, version, CliSettings.read().packages())
    say(f"packed {path}")
    out.print_json(data={"package": {"name": name, "version": version, "digest": digest}})
