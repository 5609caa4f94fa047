"""`penstock jobs files`: the committed files of an output. A reader that lists its folders also sees files of batches
that never committed, and their rows again in those of the batches that did."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Annotated
from urllib.parse import unquote

import typer

from penstock.cli.arguments import Job
from penstock.cli.connection import client
from penstock.cli.output import say
from penstock.control.errors import UserError

_FOLDERS = "g*/task-*/_spark_metadata"
_VERSION = "v1"
_LOG = re.compile(r"(\d+)(\.compact)?")


def files(job: Job, as_json: Annotated[bool, typer.Option("--json", help="print one JSON list")] = False) -> None:
    """Print the committed files of a job's output of type `files`, on this machine. Read these, and no others.

    Rows in other files of the folder are of batches that did not commit: they are there twice, or not yet.
    """
    output = client().get_job(job).config["output"]
    if output["type"] != "files":
        raise UserError(
            f"{job} writes to {output['type']}, and only an output of type files has such a list: `penstock jobs show "
            f"{job}`",
            field="job",
            rule="writes_files",
        )
    found = [str(path) for path in committed_files(local_folder(output["path"]))]
    if as_json:
        return say(json.dumps(found))
    for path in found:
        say(path)
    return None


def local_folder(path: str) -> Path:
    """A Hadoop path as a folder of this machine. Raises UserError where it is none."""
    plain = re.sub("^file:(//)?(?=/)", "", path)
    if not plain.startswith("/") or not Path(plain).is_dir():
        raise UserError(
            f"{path} is no folder of this machine: run `penstock jobs files` where it is mounted, or read its logs as "
            "libs/penstock/spark/sinks/FILES.md shows",
            field="output.path",
            rule="local",
        )
    return Path(plain)


def committed_files(folder: Path) -> Iterator[Path]:
    """The files below an output's folder that the logs of its tasks name, in order of tasks. Raises UserError."""
    for log in sorted(folder.glob(_FOLDERS)):
        for name in logs_in_force({each.name for each in log.iterdir()}):
            yield from (log.parent / each for each in _named(log / name))


def logs_in_force(names: Collection[str]) -> list[str]:
    """The files of a log that count: the newest compaction, which has all that came before it, and what came after.
    Spark deletes older ones. Pure."""
    numbers = {name: int(found[1]) for name in names if (found := _LOG.fullmatch(name))}
    newest = max((number for name, number in numbers.items() if name.endswith(".compact")), default=-1)
    later = {name: number for name, number in numbers.items() if number > newest}
    compaction = [f"{newest}.compact"] if newest >= 0 else []
    return [*compaction, *sorted(later, key=lambda name: later[name])]


def _named(log: Path) -> Iterator[str]:
    version, *lines = log.read_text().splitlines()
    if version != _VERSION:
        raise UserError(f"{log} is of version {version}, not {_VERSION}", field="output.path", rule="known_version")
    for line in lines:
        entry = json.loads(line)
        if entry["action"] == "add":
            yield unquote(entry["path"].rpartition("/")[2])
