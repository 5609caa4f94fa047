"""`penstock packages`: Python code for jobs."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from penstock.cli.connection import require_unused
from penstock.cli.output import note, say
from penstock.cli.settings import CliSettings
from penstock.spark import packages

Name = Annotated[str, typer.Argument(help="name of the package")]


def pack(
    folder: Annotated[Path, typer.Argument(help="folder of Python modules")],
    name: Name,
    version: Annotated[str, typer.Argument(help="version; a packed version never changes")],
) -> None:
    """Pack a folder of Python modules; print what to write as the job's `package`.

    Only this JSON document goes to the standard output: `penstock packages pack ... > package.json`.
    """
    path, digest = packages.pack(folder, name, version, CliSettings.read().packages())
    note(f"packed {path}")
    print(json.dumps({"package": {"name": name, "version": version, "digest": digest}}, indent=2))


def delete(
    name: Name,
    version: Annotated[str, typer.Argument(help="version to delete")],
    force: Annotated[bool, typer.Option("--force", help="do not ask the Job Service whether a job uses it")] = False,
) -> None:
    """Delete a version of a package. Refused while a job uses it.

    A job uses what its tasks run, are to run, and what a plan or restore that goes on needs. Savepoints are not looked
    at: to restore one with its package, pack the same files again, which gives the same digest.
    """
    used = {"what": "the package", "package": f"{name}/{version}"}
    check = None if force else partial(require_unused, "package", f"{name} {version}", **used)
    path = packages.delete(name, version, CliSettings.read().packages(), check)
    say(f"deleted {path}")
