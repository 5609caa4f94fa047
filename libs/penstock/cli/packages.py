"""`penstock packages`: Python code for jobs."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from penstock.cli.bar import shown
from penstock.cli.connection import asking_for_users, client, require_no_users
from penstock.cli.output import note, say
from penstock.cli.settings import CliSettings
from penstock.control.errors import NotFound
from penstock.spark import dependencies, packages

Name = Annotated[str, typer.Argument(help="name of the package")]


def pack(
    folder: Annotated[Path, typer.Argument(help="folder of Python modules")],
    name: Name,
    version: Annotated[str, typer.Argument(help="version; a packed version never changes")],
    requirements: Annotated[
        Path | None,
        typer.Option("--requirements", "-r", help="file of pip requirements: their wheels are packed, too"),
    ] = None,
) -> None:
    """Pack a folder of Python modules; print what to write as the job's `package`.

    Only this JSON document goes to the standard output: `penstock packages pack ... > package.json`.

    With `--requirements` pip resolves them now, as it is configured, for this Python and platform, which must be those
    of the hosts. The package runs in a Python of its own with these libraries, also where hosts have others. Refused
    are pyspark, py4j, delta-spark and penstock, and versions with which a host does not start. Pin all (`==`, or
    hashes) if the same call is to give the same digest later.
    """
    root = CliSettings.read().packages()
    if requirements is None:
        path, digest = packages.pack(folder, name, version, root)
    else:
        with shown("pip resolves the requirements"), dependencies.resolved(requirements) as site:
            path, digest = packages.pack(folder, name, version, root, dependencies.entries(site))
    inside = dependencies.libraries(path)
    note(f"packed {path}" + (f" with {', '.join(inside)}" if inside else ""))
    print(json.dumps({"package": {"name": name, "version": version, "digest": digest}}, indent=2))


def delete(
    name: Name,
    version: Annotated[str, typer.Argument(help="version to delete")],
    force: Annotated[bool, typer.Option("--force", help="do not ask the Job Service whether a job uses it")] = False,
) -> None:
    """Delete a version of a package. Refused while a job uses it.

    A job uses what its tasks run, what a layer of it names, what it may be rolled back to, and what a plan or restore
    that goes on needs. A write that is under way either finishes first, and then the delete gets 409, or is refused
    itself. Savepoints and the history are not looked at: to go back to one with its package, pack the same files again,
    which gives the same digest.
    """
    check = None if force else partial(_require_unused, name, version)
    path = packages.delete(name, version, CliSettings.read().packages(), check)
    say(f"deleted {path}")


def _require_unused(name: str, version: str) -> None:
    """From now on no write that has begun takes the version. Raises Conflict while a job uses it, or may."""
    what = f"{name} {version}"
    with asking_for_users("package", what):
        service = client()
        try:
            return service.delete_package(name, version)
        except NotFound:  # of a Job Service of the release before, which cannot refuse writes
            users = service.list_jobs(package=f"{name}/{version}")
            return require_no_users("package", what, [job.job for job in users])
