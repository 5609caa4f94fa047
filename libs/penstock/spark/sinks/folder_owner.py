"""Whose the folder of a `files` output is: one job's, from its making to its end. A task's folder is one checkpoint's.

    <checkpoint root>/_cell/id                  names the cell; written once
    <path>/_owner/record                        the job that may write below `path` (`Owner`)
    <path>/g<generation>/task-<index>/_query    the id in the metadata of the one checkpoint that may write there

Spark's log of a folder, `_spark_metadata`, only has numbers of batches. A query of another checkpoint would take its
own batches for written ones, and skip them silently. So a folder that was used before is refused.

The record is published by the rename of a folder, so it is whole, and one of several claims wins.
"""

from __future__ import annotations

import json
import uuid
from typing import NamedTuple

from penstock.config.model import FilesOutput
from penstock.control.errors import BrokenTask, Unavailable
from penstock.spark.files import Files

LOG = "_spark_metadata"
_CELL = "_cell/id"
_OWNER = "_owner/record"
QUERY = "_query"
"""In the folder of a task: the id of the query that writes there."""
_REMEDY = "Choose another output.path; or delete the folder, if nobody needs its rows"


class Owner(NamedTuple):
    """`generation`: the first of the job that may write. A job of the same name that was deleted had lower ones.
    `format`: that of its files, with the options of CSV by which other readers would not understand them."""

    cell: str
    job: str
    generation: int
    format: str


def claim(files: Files, checkpoints: Files, root: str, output: FilesOutput, job: str, first_generation: int) -> None:
    """Makes the folder of `output` the job's own, before it writes there. `first_generation`: the first that the job
    ever had. `root`: that of all checkpoints, among the files `checkpoints`. Safe to repeat.

    Raises BrokenTask when the folder is another job's, or was that of a deleted job of the same name.
    """
    asked = Owner(_cell(checkpoints, root), job, first_generation, _form(output))
    found = _owner(files, output.path) or _publish(files, output.path, asked)
    if problem(found, asked) is not None and not _generations(files, output.path):
        # Nobody has written there: the job that claimed it may never have started.
        files.delete(_folder_of(output.path, _OWNER))
        found = _publish(files, output.path, asked)
    _require(found, asked, output)


def require_own(files: Files, checkpoints: Files, root: str, output: FilesOutput, job: str, generation: int) -> None:
    """Raises BrokenTask unless a generation of the job may write below the folder of `output`. Claims one that nobody
    has claimed: that of a job which an older release started."""
    asked = Owner(_cell(checkpoints, root), job, generation, _form(output))
    found = _owner(files, output.path) or _publish(files, output.path, asked)
    if found.generation > generation:
        raise BrokenTask(f"output.path: {output.path} belongs to a newer job of the name {job}")
    _require(found, asked._replace(generation=found.generation), output)


def problem(found: Owner, asked: Owner) -> str | None:
    """Why a folder that is `found`'s is not for `asked`; None when it is. Pure."""
    if found.cell != asked.cell:
        earlier = "from before this one's checkpoints were deleted"
        return f"has files of the job {found.job} from another installation, or {earlier}"
    if found.job != asked.job:
        return f"has files of the job {found.job}"
    if found.generation < asked.generation:
        return f"has files of a job {found.job} that was deleted"
    return None


def lost(folder: str) -> str:
    """The error of a task whose folder was deleted while it ran."""
    return (
        f"output.path: {folder} was deleted, with the rows that the job had written there. Choose another output.path, "
        "where the job continues with the next rows; or delete the job and create it again"
    )


def bind(files: Files, folder: str, query_id: str, planned: int | None) -> None:
    """Ties a task's folder to its checkpoint, which the caller has claimed: by the id in its metadata. `planned`: the
    checkpoint's newest batch.

    Raises BrokenTask when the folder has batches of another checkpoint: Spark would skip as many batches of this one.
    """
    names = files.names(folder)
    bound = files.read(f"{folder}/{QUERY}").decode() if QUERY in names else None
    if bound == query_id:
        return
    newest = max(_batches(files, folder), default=None)
    # Before a folder was bound it was told by its batches: a task plans a batch before it writes it.
    if newest is not None and (bound is not None or planned is None or newest > planned):
        raise BrokenTask(
            f"output.path: {folder} has batches up to {newest} of another checkpoint, so Spark would skip this one's. "
            f"{_REMEDY}"
        )
    files.delete(f"{folder}/{QUERY}")
    files.write(f"{folder}/{QUERY}", query_id.encode())


def _require(found: Owner, asked: Owner, output: FilesOutput) -> None:
    why = problem(found, asked)
    if why is not None:
        raise BrokenTask(f"output.path: {output.path} {why}: a folder takes the files of one job. {_REMEDY}")
    if found.format != asked.format:
        raise BrokenTask(
            f"output.format: {output.path} has {found.format} files, and a folder takes one format. Choose another "
            f"output.path for {asked.format}"
        )


def _form(output: FilesOutput) -> str:
    """The format, how times are written, and the options of CSV that are not Spark's defaults. Each file says how it is
    compressed."""
    options = output.csv.model_dump(exclude_defaults=True, exclude={"compression"})
    if not output.header:
        options["header"] = False
    if output.timestamp_format is not None:
        options["timestamp_format"] = output.timestamp_format
    return f"{output.format} {json.dumps(options, sort_keys=True)}" if options else output.format


def _cell(files: Files, root: str) -> str:
    root = root.rstrip("/")
    if not _exists(files, root, _CELL):
        _publish_text(files, root, _CELL, str(uuid.uuid4()))
    return _text(files, root, _CELL)


def _owner(files: Files, path: str) -> Owner | None:
    if not _exists(files, path.rstrip("/"), _OWNER):
        return None
    try:
        return Owner(**json.loads(_text(files, path.rstrip("/"), _OWNER)))
    except FileNotFoundError:
        raise Unavailable(f"output.path: the owner of {path} is being changed") from None
    except (ValueError, TypeError) as error:
        raise BrokenTask(f"output.path: {path}/{_OWNER} cannot be read: {error}. {_REMEDY}") from error


def _publish(files: Files, path: str, owner: Owner) -> Owner:
    """The owner of the folder from now on, which another claim at the same time may have made another."""
    _publish_text(files, path.rstrip("/"), _OWNER, json.dumps(owner._asdict()))
    return _owner(files, path) or owner


def _text(files: Files, root: str, name: str) -> str:
    folder, _, file = name.partition("/")
    return files.read(f"{files.resolve(f'{root}/{folder}')}/{file}").decode()


def _publish_text(files: Files, root: str, name: str, text: str) -> None:
    """Writes `<root>/<name>` unless it is there."""
    folder, _, file = name.partition("/")
    fresh = f"{root}/{folder}-{uuid.uuid4().hex}"
    files.write(f"{fresh}/{file}", text.encode())
    if not files.publish(fresh, f"{root}/{folder}"):
        files.delete(fresh)


def _batches(files: Files, folder: str) -> list[int]:
    """The batches in the log of a folder; every tenth or so is called `<number>.compact`."""
    stems = (name.removesuffix(".compact") for name in files.names(f"{folder}/{LOG}"))
    return [int(stem) for stem in stems if stem.isascii() and stem.isdigit()]


def _generations(files: Files, path: str) -> list[str]:
    return [name for name in files.names(path) if name[:1] == "g" and name[1:].isdigit()]


def _exists(files: Files, root: str, name: str) -> bool:
    return name.partition("/")[0] in files.names(root)


def _folder_of(path: str, name: str) -> str:
    return f"{path.rstrip('/')}/{name.partition('/')[0]}"
